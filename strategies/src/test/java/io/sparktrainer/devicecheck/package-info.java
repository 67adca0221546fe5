/**
 * What can only be shown on a machine with a GPU, as one program that a script runs there; on the
 * CPU it runs too, which is how the program itself is tested.
 */
package io.sparktrainer.devicecheck;
