#include "common/tokenizer/bpe/unicode.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(UnicodeTest, ClassesOfKnownCharacters) {
  for (const uint32_t letter : {0x41u, 0x7au, 0xe9u, 0x3b1u, 0x5d0u, 0x4e2du, 0x1d400u, 0x2b820u}) {
    EXPECT_EQ(ClassOf(letter), CodePointClass::kLetter) << std::hex << letter;
  }
  // Digits, superscript two, one half, Roman eight, an Arabic three, a mathematical zero.
  for (const uint32_t number : {0x30u, 0x39u, 0xb2u, 0xbdu, 0x2167u, 0x663u, 0x1d7ceu}) {
    EXPECT_EQ(ClassOf(number), CodePointClass::kNumber) << std::hex << number;
  }
  for (const uint32_t space : {0x9u, 0xdu, 0x20u, 0x85u, 0xa0u, 0x2003u, 0x2028u, 0x3000u}) {
    EXPECT_EQ(ClassOf(space), CodePointClass::kSpace) << std::hex << space;
  }
  // A control character, punctuation, a combining accent, a zero-width space, an emoji, unassigned.
  for (const uint32_t other : {0x0u, 0x1cu, 0x2eu, 0x5fu, 0x301u, 0x200bu, 0x1f600u, 0x10ffffu}) {
    EXPECT_EQ(ClassOf(other), CodePointClass::kOther) << std::hex << other;
  }
}

}  // namespace
}  // namespace muster
