package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.CollectiveHandle;

/** Stands where a group of one rank, or an empty tensor, needs no collective. */
enum NoCollective implements CollectiveHandle {
  INSTANCE;

  @Override
  public void await() {}

  @Override
  public boolean isDone() {
    return true;
  }
}
