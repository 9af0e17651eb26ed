#include "worker/strategy/arena.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;

TEST(ArenaTest, IsZeroedAndAligned) {
  Arena small(100);
  EXPECT_THAT(small.values(), Each(0.0f));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small.values().data()) % 64, 0);
  Arena large((3 << 20) / sizeof(float));
  EXPECT_THAT(large.values(), Each(0.0f));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.values().data()) % (2 << 20), 0);
  EXPECT_EQ(Arena(0).values().size(), 0);
}

TEST(TensorSpansTest, FollowTheLayoutNotTheOrderOfTheList) {
  std::vector<TensorSpec> tensors(2);
  tensors[0].name = "late";
  tensors[0].shape = {2};
  tensors[0].unit = 1;
  tensors[1].name = "early";
  tensors[1].shape = {3};
  DenseLayout layout = DenseLayout::Create(tensors, {}).value();
  Arena arena(layout.elements());
  auto spans = TensorSpans(layout, tensors, arena.values());
  ASSERT_EQ(spans.size(), 2);
  EXPECT_EQ(spans[0].data(), arena.values().data() + 3);
  EXPECT_EQ(spans[0].size(), 2);
  EXPECT_EQ(spans[1].data(), arena.values().data());
  EXPECT_EQ(spans[1].size(), 3);
}

TEST(ArenaPoolTest, HandsOutWhatCameBack) {
  ArenaPool pool(10, 2);
  std::shared_ptr<Arena> first = pool.Acquire();
  std::shared_ptr<Arena> second = pool.Acquire();
  EXPECT_NE(first, second);
  Arena* released = first.get();
  first.reset();
  EXPECT_EQ(pool.Acquire().get(), released);
}

TEST(ArenaPoolTest, WaitsForTheLastHolder) {
  ArenaPool pool(10, 1);
  std::shared_ptr<Arena> held = pool.Acquire();
  Arena* only = held.get();
  // As a transport that still sends from a slice of it.
  std::shared_ptr<const void> slice = held;
  held.reset();
  std::thread transport([&slice] { slice.reset(); });
  EXPECT_EQ(pool.Acquire().get(), only);
  transport.join();
}

TEST(ArenaPoolTest, HoldersMayOutliveThePool) {
  std::shared_ptr<Arena> held;
  {
    ArenaPool pool(4, 1);
    held = pool.Acquire();
  }
  held->values()[3] = 1;
  EXPECT_EQ(held->values()[3], 1);
}

}  // namespace
}  // namespace muster
