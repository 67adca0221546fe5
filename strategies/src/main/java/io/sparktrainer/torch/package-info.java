/**
 * Native scopes, devices, dtypes, threads and random state: the only package that touches JavaCPP's
 * pointer scopes.
 */
@NullMarked
package io.sparktrainer.torch;

import org.jspecify.annotations.NullMarked;
