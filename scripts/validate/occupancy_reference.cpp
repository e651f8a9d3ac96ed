// What the CUDA toolkit's own calculator says of each launch on standard input.
//
// Arguments: compute capability (major, minor), threads per block, threads per SM, registers per block,
// registers per SM, warp size, shared memory per block, per SM, per block when opted in, reserved per block.
// Each input line: threads of a block, registers of a thread, bytes of shared memory of a block.
// Each output line: status (0 fine, 1 invalid input, 2 unknown device), resident blocks, limiting factors.

#include <climits>
#include <cstdio>
#include <cstdlib>

#include "cuda_occupancy.h"

int main(int argc, char** argv) {
  if (argc != 12) {
    std::fprintf(stderr, "expected 11 arguments, found %d\n", argc - 1);
    return 2;
  }
  int given[11];
  for (int i = 0; i < 11; ++i) given[i] = std::atoi(argv[i + 1]);

  cudaOccDeviceProp device;
  device.computeMajor = given[0];
  device.computeMinor = given[1];
  device.maxThreadsPerBlock = given[2];
  device.maxThreadsPerMultiprocessor = given[3];
  device.regsPerBlock = given[4];
  device.regsPerMultiprocessor = given[5];
  device.warpSize = given[6];
  device.sharedMemPerBlock = given[7];
  device.sharedMemPerMultiprocessor = given[8];
  device.sharedMemPerBlockOptin = given[9];
  device.reservedSharedMemPerBlock = given[10];
  device.numSms = 1;

  cudaOccDeviceState state;  // as much shared memory as the SM has

  int threads, registers, shared_bytes;
  while (std::scanf("%d %d %d", &threads, &registers, &shared_bytes) == 3) {
    cudaOccFuncAttributes function;
    function.maxThreadsPerBlock = INT_MAX;
    function.numRegs = registers;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = INT_MAX / 2;
    function.numBlockBarriers = 1;
    cudaOccResult result = {};
    const cudaOccError status =
        cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, threads, shared_bytes);
    const int blocks = status == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : 0;
    std::printf("%d %d %u\n", static_cast<int>(status), blocks, result.limitingFactors);
  }
  return 0;
}
