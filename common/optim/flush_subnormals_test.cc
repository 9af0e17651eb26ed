#include "common/optim/flush_subnormals.h"

#include <limits>

#include "gtest/gtest.h"

namespace muster {
namespace {

// Not folded by the compiler.
float Quarter(float x) {
  volatile float value = x;
  return value / 4;
}

TEST(FlushSubnormalsTest, HoldsWhileItLives) {
  const float least = std::numeric_limits<float>::min();
  EXPECT_GT(Quarter(least), 0);
  {
    const FlushSubnormals outer;
    {
      const FlushSubnormals inner;
      EXPECT_EQ(Quarter(4 * least), least);
#if defined(__SSE2__)
      EXPECT_EQ(Quarter(least), 0);
#endif
    }
#if defined(__SSE2__)
    EXPECT_EQ(Quarter(least), 0) << "The inner one's end must not end the outer one.";
#endif
  }
  EXPECT_GT(Quarter(least), 0);
}

}  // namespace
}  // namespace muster
