#include "common/kernels/device/simt/emulated_grid.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "common/kernels/device/simt/fiber.h"

namespace muster {
namespace {

// Of sm_80, the least that kernels are compiled for.
constexpr size_t kMostSharedBytes = size_t{163} << 10;

enum class Stop { kRunnable, kWarp, kBlock, kDone };

class Block;
thread_local Block* current_block = nullptr;
thread_local EmulatedThread* current_thread = nullptr;

// One thread of a block, used again by the next block.
struct Strand {
  Strand(Block* block, int thread);

  EmulatedThread state;
  Stop stop = Stop::kRunnable;
  WarpOperation operation = nullptr;
  int exchanges = 0;
  std::vector<std::function<void()>> uncommitted;
  std::deque<std::vector<std::function<void()>>> committed;
  Fiber fiber;
};

class Block {
 public:
  void Run(const EmulatedGrid& grid, int x, int y, int z, absl::FunctionRef<void()> body);

  Strand& current() { return *strands_[current_thread->thread]; }
  void Pause(Stop stop) {
    Strand& strand = current();
    strand.stop = stop;
    strand.fiber.Leave();
  }
  WarpSlot* SlotsOf(const Strand& strand) {
    return &slots_[(strand.state.thread / kWarpLanes * 2 + strand.exchanges % 2) * kWarpLanes];
  }
  [[noreturn]] void Die(const char* what, int thread) const {
    std::fprintf(stderr, "emulated kernel %s, block (%d, %d, %d), thread %d: %s\n", grid_->kernel,
                 x_, y_, z_, thread, what);
    std::abort();
  }
  void Body() { (*body_)(); }

 private:
  void RunWarp(int warp);
  // Whether there is more to do.
  bool Release();

  const EmulatedGrid* grid_ = nullptr;
  const absl::FunctionRef<void()>* body_ = nullptr;
  int x_ = 0, y_ = 0, z_ = 0;
  std::vector<std::unique_ptr<Strand>> strands_;
  // [warps, 2, lanes]: of a warp's last two exchanges.
  std::vector<WarpSlot> slots_;
  // Counts what lanes and warps have been released from.
  unsigned phase_ = 0;
};

Strand::Strand(Block* block, int thread)
    : fiber(
          [](void* self) {
            while (true) {
              static_cast<Block*>(self)->Body();
              static_cast<Block*>(self)->Pause(Stop::kDone);
            }
          },
          block) {
  state.thread = thread;
}

void Block::RunWarp(int warp) {
  const int first = warp * kWarpLanes;
  while (true) {
    for (int i = 0; i < kWarpLanes; ++i) {
      const int thread = first + (phase_ % 2 == 0 ? i : kWarpLanes - 1 - i);
      Strand& strand = *strands_[thread];
      if (strand.stop != Stop::kRunnable) continue;
      current_thread = &strand.state;
      strand.fiber.Enter();
    }
    const Strand& leader = *strands_[first];
    for (int i = 1; i < kWarpLanes; ++i) {
      const Strand& strand = *strands_[first + i];
      if (leader.stop == Stop::kWarp || strand.stop == Stop::kWarp) {
        if (strand.stop != leader.stop || strand.operation != leader.operation) {
          Die("its warp is divided: lanes stand at different operations", first + i);
        }
      }
    }
    if (leader.stop != Stop::kWarp) return;
    if (leader.operation != nullptr) leader.operation(SlotsOf(leader));
    for (int i = 0; i < kWarpLanes; ++i) strands_[first + i]->stop = Stop::kRunnable;
    ++phase_;
  }
}

bool Block::Release() {
  const Stop stop = strands_[0]->stop;
  for (int t = 0; t < grid_->threads; ++t) {
    if (strands_[t]->stop != stop) Die("some threads are at a barrier that others never reach", t);
  }
  if (stop == Stop::kDone) return false;
  for (int t = 0; t < grid_->threads; ++t) strands_[t]->stop = Stop::kRunnable;
  ++phase_;
  return true;
}

void Block::Run(const EmulatedGrid& grid, int x, int y, int z, absl::FunctionRef<void()> body) {
  grid_ = &grid;
  body_ = &body;
  x_ = x, y_ = y, z_ = z;
  if (grid.threads % kWarpLanes != 0 || grid.threads < 1 || grid.threads > 1024) {
    Die("a block has 32 to 1024 threads, in whole warps", grid.threads);
  }
  if (grid.shared_bytes > kMostSharedBytes) {
    Die("a block has at most 163 KiB of shared memory", grid.threads);
  }
  while (strands_.size() < static_cast<size_t>(grid.threads)) {
    strands_.push_back(std::make_unique<Strand>(this, static_cast<int>(strands_.size())));
  }
  slots_.resize(grid.threads * 2);
  // Of its own, so that what is written behind it is noticed by whoever looks.
  void* memory = nullptr;
  if (posix_memalign(&memory, 128, std::max<size_t>(1, grid.shared_bytes)) != 0)
    Die("no shared memory", 0);
  std::unique_ptr<char, void (*)(void*)> shared(static_cast<char*>(memory), std::free);
  std::memset(shared.get(), 0xff, grid.shared_bytes);
  for (int t = 0; t < grid.threads; ++t) {
    Strand& strand = *strands_[t];
    strand.stop = Stop::kRunnable;
    strand.exchanges = 0;
    EmulatedThread& state = strand.state;
    state.block_x = x, state.block_y = y, state.block_z = z;
    state.grid_x = grid.x, state.grid_y = grid.y, state.grid_z = grid.z;
    state.shared = shared.get();
  }
  const int warps = grid.threads / kWarpLanes;
  do {
    const bool forward = phase_ % 2 == 0;
    for (int i = 0; i < warps; ++i) RunWarp(forward ? i : warps - 1 - i);
  } while (Release());
  for (int t = 0; t < grid.threads; ++t) {
    bool pending = !strands_[t]->uncommitted.empty();
    for (const auto& group : strands_[t]->committed) pending = pending || !group.empty();
    if (pending) Die("it ended with asynchronous copies under way", t);
    strands_[t]->committed.clear();
  }
}

}  // namespace

void RunEmulatedGrid(const EmulatedGrid& grid, absl::FunctionRef<void()> body) {
  thread_local Block block;
  current_block = &block;
  for (int z = 0; z < grid.z; ++z) {
    for (int y = 0; y < grid.y; ++y) {
      for (int x = 0; x < grid.x; ++x) block.Run(grid, x, y, z, body);
    }
  }
}

EmulatedThread& CurrentEmulatedThread() { return *current_thread; }

WarpSlot* EmulatedThread::Exchange(const WarpSlot& input, WarpOperation operation) {
  Strand& strand = current_block->current();
  strand.operation = operation;
  ++strand.exchanges;
  WarpSlot* slots = current_block->SlotsOf(strand);
  slots[thread % kWarpLanes] = input;
  current_block->Pause(Stop::kWarp);
  return slots;
}

void EmulatedThread::SyncBlock() { current_block->Pause(Stop::kBlock); }

void EmulatedThread::CopyLater(std::function<void()> copy) {
  current_block->current().uncommitted.push_back(std::move(copy));
}

void EmulatedThread::CommitCopies() {
  Strand& strand = current_block->current();
  strand.committed.push_back(std::move(strand.uncommitted));
  strand.uncommitted.clear();
}

void EmulatedThread::WaitForCopies(int groups_left) {
  Strand& strand = current_block->current();
  while (strand.committed.size() > static_cast<size_t>(groups_left)) {
    for (const std::function<void()>& copy : strand.committed.front()) copy();
    strand.committed.pop_front();
  }
}

}  // namespace muster
