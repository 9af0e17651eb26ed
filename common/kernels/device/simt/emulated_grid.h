#ifndef MUSTER_COMMON_KERNELS_DEVICE_SIMT_EMULATED_GRID_H_
#define MUSTER_COMMON_KERNELS_DEVICE_SIMT_EMULATED_GRID_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/functional/function_ref.h"

namespace muster {

// Runs a kernel's grid on the calling thread, block after block: each thread of a block is a fiber
// that runs until its next barrier. It ends the process, saying why, where a GPU would hang or do
// something undefined, or would not start: threads of a warp that stand at different warp
// operations, threads of a block that do not all come to a barrier, a block of more shared memory
// than sm_80 gives one.
//
// Made to find what a GPU hides: shared memory is exactly as large as asked for and full of NaNs at
// a block's start; warps, and the lanes of a warp, run in order before one barrier and in reverse
// before the next, so that what needs a barrier and has none goes wrong; asynchronous copies are
// done as late as is allowed.
struct EmulatedGrid {
  int x = 1, y = 1, z = 1;
  // Of a block; a multiple of 32.
  int threads = 32;
  size_t shared_bytes = 0;
  // For messages.
  const char* kernel = "";
};
void RunEmulatedGrid(const EmulatedGrid& grid, absl::FunctionRef<void()> body);

constexpr int kWarpLanes = 32;

// What each lane hands in to an operation of its warp and gets from it.
struct alignas(64) WarpSlot {
  uint32_t words[16];
};
// Makes all lanes' results from all lanes' inputs, in place; null: inputs are the results.
using WarpOperation = void (*)(WarpSlot* lanes);

// The thread that runs, in a kernel's body.
struct EmulatedThread {
  int thread = 0;
  int block_x = 0, block_y = 0, block_z = 0;
  int grid_x = 0, grid_y = 0, grid_z = 0;
  char* shared = nullptr;

  // Waits for the other lanes. The result is this warp's 32 slots, valid until the next call.
  WarpSlot* Exchange(const WarpSlot& input, WarpOperation operation);
  void SyncBlock();

  // Asynchronous copies of this thread: in groups, done when a wait asks for them.
  void CopyLater(std::function<void()> copy);
  void CommitCopies();
  void WaitForCopies(int groups_left);
};
EmulatedThread& CurrentEmulatedThread();

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_SIMT_EMULATED_GRID_H_
