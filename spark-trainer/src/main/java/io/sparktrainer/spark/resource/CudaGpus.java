package io.sparktrainer.spark.resource;

import io.sparktrainer.torch.CudaDevice;
import io.sparktrainer.torch.CudaDevices;
import io.sparktrainer.torch.CudaTorch;
import io.sparktrainer.torch.NativeLibraryException;
import java.util.List;

/** The GPUs of this process that libtorch can compute on. */
public final class CudaGpus implements GpuFinder {
  private static final long serialVersionUID = 1L;

  @Override
  public GpuListing find() {
    List<CudaDevice> devices = CudaDevices.list();
    if (devices.isEmpty()) {
      return GpuListing.none(String.valueOf(CudaDevices.whyUnusable()));
    }
    if (devices.get(0).device().isCuda()) {
      try {
        CudaTorch.load();
      } catch (NativeLibraryException e) {
        return GpuListing.none(String.valueOf(e.getMessage()));
      }
    }
    return GpuListing.of(devices.stream().map(Gpu::of).toList());
  }
}
