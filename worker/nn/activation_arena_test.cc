#include "worker/nn/activation_arena.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ActivationArenaTest, PiecesAreAlignedAndApart) {
  ActivationArena arena;
  arena.Begin();
  const size_t a = arena.Reserve<float>(3);
  const size_t b = arena.Reserve<uint16_t>(5);
  const size_t c = arena.Reserve<float>(0);
  arena.Commit();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.At<float>(a)) % 64, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.At<uint16_t>(b)) % 64, 0);
  for (int i = 0; i < 3; ++i) arena.At<float>(a)[i] = 1.5f;
  for (int i = 0; i < 5; ++i) arena.At<uint16_t>(b)[i] = 7;
  EXPECT_EQ(arena.At<float>(a)[2], 1.5f);
  EXPECT_EQ(arena.At<uint16_t>(b)[4], 7);
  EXPECT_LE(c, arena.capacity());
}

TEST(ActivationArenaTest, AllocatesOnlyToGrow) {
  ActivationArena arena;
  const auto lay_out = [&arena](int64_t floats) {
    arena.Begin();
    const size_t piece = arena.Reserve<float>(floats);
    arena.Commit();
    return arena.At<float>(piece);
  };
  float* first = lay_out(1000);
  EXPECT_EQ(lay_out(1000), first);
  EXPECT_EQ(lay_out(10), first);
  EXPECT_EQ(arena.used(), 64);
  EXPECT_EQ(lay_out(1000), first);
  float* large = lay_out(1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % (2 << 20), 0);
  EXPECT_GE(arena.capacity(), size_t{4} << 20);
}

}  // namespace
}  // namespace muster
