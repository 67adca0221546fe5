package io.sparktrainer.devicecheck;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

/** A group whose collectives have all ended when they return: nothing runs beside them. */
final class HostWaits {
  private HostWaits() {}

  static Communicator around(Communicator group) {
    return (Communicator)
        Proxy.newProxyInstance(
            Communicator.class.getClassLoader(),
            new Class<?>[] {Communicator.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals("newStream")) {
                return null;
              }
              Object result;
              try {
                result = method.invoke(group, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
              if (result instanceof CollectiveHandle handle) {
                handle.awaitOnHost();
              }
              return result instanceof Communicator part ? around(part) : result;
            });
  }
}
