// The emulation itself: that it does what a GPU does, and notices what a GPU does not allow.
#include "common/kernels/device/simt/emulated_grid.h"

#include <cmath>
#include <vector>

#include "common/device/device.h"
#include "common/kernels/device/simt/simt.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

template <typename Kernel>
void RunNow(const LaunchGrid& grid, size_t shared_bytes, const Kernel& kernel) {
  auto stream = DeviceStream::Create().value();
  Launch(*stream, grid, shared_bytes, kernel);
  ASSERT_TRUE(stream->Synchronize().ok());
}

// Each block reverses its part of an array by way of shared memory.
struct ReverseKernel {
  static constexpr int kThreads = 96;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "reverse";
  const int* x;
  int* y;
  void Run() const {
    int* shared = reinterpret_cast<int*>(SharedMemory());
    const int first = (BlockX() + GridX() * BlockY()) * kThreads;
    shared[ThreadIndex()] = x[first + ThreadIndex()];
    SyncBlock();
    y[first + ThreadIndex()] = shared[kThreads - 1 - ThreadIndex()];
  }
};

TEST(EmulatedGridTest, RunsBlocksThreadsAndBarriers) {
  std::vector<int> x(6 * 96), y(6 * 96);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int>(i);
  RunNow({.x = 3, .y = 2}, 96 * sizeof(int), ReverseKernel{x.data(), y.data()});
  for (int i = 0; i < 6 * 96; ++i) EXPECT_EQ(y[i], i / 96 * 96 + 95 - i % 96);
}

struct ShuffleKernel {
  static constexpr int kThreads = 64;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "shuffle";
  double* y;
  void Run() const {
    double sum = ThreadIndex();
    for (int mask = 16; mask > 0; mask /= 2) sum += ShuffleXor(sum, mask);
    y[ThreadIndex()] = sum + Shuffle(1000.0 * LaneIndex(), 5);
  }
};

TEST(EmulatedGridTest, LanesExchangeWithinTheirWarp) {
  std::vector<double> y(64);
  RunNow({}, 0, ShuffleKernel{y.data()});
  for (int i = 0; i < 64; ++i) EXPECT_EQ(y[i], (i < 32 ? 496 : 496 + 32 * 32) + 5000) << i;
}

// c = a · b for a [16, 16] row-major, b [16, 8] row-major, both in shared memory.
template <typename T>
struct MatrixKernel {
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "matrix";
  const T* a;
  const T* b;
  float* c;
  void Run() const {
    T* left = reinterpret_cast<T*>(SharedMemory());
    // Eight columns more, so that ldmatrix.x4 has four matrices to read.
    T* right = left + 16 * 16;
    for (int i = LaneIndex(); i < 256; i += 32) left[i] = a[i];
    for (int i = LaneIndex(); i < 256; i += 32) {
      right[i] = i % 16 < 8 ? b[i / 16 * 8 + i % 16] : T{};
    }
    SyncWarp();
    uint32_t af[4], bf[4];
    LoadMatrices(af, left + LaneIndex() % 16 * 16 + LaneIndex() / 16 * 8);
    LoadMatricesTransposed(bf, right + LaneIndex() % 16 * 16 + LaneIndex() / 16 * 8);
    const uint32_t first[2] = {bf[0], bf[1]};
    float sums[4] = {1, 1, 1, 1};
    MultiplyAdd<T>(sums, af, first);
    for (int i = 0; i < 4; ++i) {
      c[(LaneIndex() / 4 + i / 2 * 8) * 8 + LaneIndex() % 4 * 2 + i % 2] = sums[i];
    }
  }
};

template <typename T>
void CheckMatrix() {
  std::vector<T> a(256), b(128);
  for (int i = 0; i < 256; ++i) a[i] = Narrow<T>(static_cast<float>(i % 13 - 6));
  for (int i = 0; i < 128; ++i) b[i] = Narrow<T>(static_cast<float>(i % 7) / 2);
  std::vector<float> c(128);
  RunNow({}, 2 * 256 * sizeof(T), MatrixKernel<T>{a.data(), b.data(), c.data()});
  for (int r = 0; r < 16; ++r) {
    for (int n = 0; n < 8; ++n) {
      float wanted = 1;
      for (int k = 0; k < 16; ++k) wanted += Widen(a[r * 16 + k]) * Widen(b[k * 8 + n]);
      EXPECT_EQ(c[r * 8 + n], wanted) << r << ", " << n;
    }
  }
}

TEST(EmulatedGridTest, FragmentsMakeAProductOfMatrices) {
  CheckMatrix<Bf16>();
  CheckMatrix<F16>();
}

struct CopyKernel {
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "copy";
  const float* x;
  float* before;
  float* after;
  void Run() const {
    float* shared = reinterpret_cast<float*>(SharedMemory()) + 4 * LaneIndex();
    shared[0] = -1;
    CopyAsync16(shared, x + 4 * LaneIndex(), LaneIndex() != 3);
    CommitCopies();
    CommitCopies();
    WaitCopies<2>();
    before[LaneIndex()] = shared[0];
    WaitCopies<1>();
    after[LaneIndex()] = shared[0];
  }
};

TEST(EmulatedGridTest, CopiesAreAsLateAsTheirWait) {
  std::vector<float> x(128, 7), before(32), after(32);
  RunNow({}, 512, CopyKernel{x.data(), before.data(), after.data()});
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(before[i], -1);
    EXPECT_EQ(after[i], i == 3 ? 0 : 7);
  }
}

struct UninitialisedKernel {
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "uninitialised";
  float* y;
  void Run() const { y[ThreadIndex()] = reinterpret_cast<float*>(SharedMemory())[ThreadIndex()]; }
};

TEST(EmulatedGridTest, SharedMemoryStartsAsNaNs) {
  std::vector<float> y(32);
  RunNow({}, 128, UninitialisedKernel{y.data()});
  for (float value : y) EXPECT_TRUE(std::isnan(value));
}

// Neighbours in a ring pass a value on without a barrier: some order of threads shows it.
struct RaceKernel {
  static constexpr int kThreads = 128;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "race";
  bool barrier;
  int* y;
  void Run() const {
    int* shared = reinterpret_cast<int*>(SharedMemory());
    for (int round = 0; round < 2; ++round) {
      shared[ThreadIndex()] = round;
      if (barrier) SyncBlock();
      const int seen = shared[(ThreadIndex() + 64) % kThreads];
      SyncBlock();
      y[round * kThreads + ThreadIndex()] = seen;
    }
  }
};

TEST(EmulatedGridTest, AMissingBarrierShows) {
  for (bool barrier : {true, false}) {
    std::vector<int> y(256);
    RunNow({}, 512, RaceKernel{barrier, y.data()});
    bool right = true;
    for (int i = 0; i < 256; ++i) right = right && y[i] == i / 128;
    EXPECT_EQ(right, barrier);
  }
}

struct DividedKernel {
  static constexpr int kThreads = 32;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "divided";
  void Run() const {
    if (LaneIndex() < 16) SyncWarp();
  }
};
struct StrandedKernel {
  static constexpr int kThreads = 64;
  static constexpr int kMinBlocks = 1;
  static constexpr const char* kName = "stranded";
  void Run() const {
    if (WarpIndex() == 0) SyncBlock();
  }
};

TEST(EmulatedGridDeathTest, EndsWhereAGpuWouldHang) {
  EXPECT_DEATH(RunNow({}, 0, DividedKernel{}), "divided.*different operations");
  EXPECT_DEATH(RunNow({}, 0, StrandedKernel{}), "stranded.*others never reach");
}

TEST(EmulatedGridDeathTest, SharedMemoryIsAsSm80s) {
  std::vector<float> y(32);
  RunNow({}, 163 << 10, UninitialisedKernel{y.data()});
  EXPECT_DEATH(RunNow({}, (163 << 10) + 1, UninitialisedKernel{y.data()}),
               "uninitialised.*163 KiB");
}

}  // namespace
}  // namespace muster
