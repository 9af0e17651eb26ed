#include "common/base/machine/prefetch.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace muster {
namespace {

// As tables do: a member that computes the address at some length, and has no other effect.
class Array {
 public:
  explicit Array(const int* base) : base_(base) {}
  void PrefetchElement(uint64_t key) const {
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
    key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
    Prefetch(&base_[(key ^ (key >> 31)) % 1024]);
  }

 private:
  const int* const base_;
};

__attribute__((noinline)) void PrefetchOne(const Array& array, uint64_t key) {
  array.PrefetchElement(key);
}

TEST(PrefetchTest, CallsAreNotDropped) {
#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
  // The instruction itself, 0f 18, in the function's code.
  const auto* code = reinterpret_cast<const uint8_t*>(&PrefetchOne);
  bool found = false;
  for (int i = 0; i < 128; ++i) found |= code[i] == 0x0f && code[i + 1] == 0x18;
  EXPECT_TRUE(found);
#else
  GTEST_SKIP() << "only optimised code for x86 is looked at";
#endif
  int values[1024];
  PrefetchOne(Array(values), 7);
}

}  // namespace
}  // namespace muster
