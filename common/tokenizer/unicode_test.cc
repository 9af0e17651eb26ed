#include "common/tokenizer/unicode.h"

#include <string>

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

TEST(UnicodeTest, EveryCodePointIsReadBack) {
  for (uint32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    AppendUtf8(c, text);
    const size_t bytes = text.size();
    text += "x";
    const CodePoint read = FirstCodePoint(text);
    ASSERT_EQ(read.value, c);
    ASSERT_EQ(read.bytes, bytes);
  }
}

TEST(UnicodeTest, WhatIsNoUtf8IsOneByte) {
  // A lone continuation, a cut sequence, one broken by ASCII, overlong forms, a surrogate, beyond
  // the last code point, and bytes that never occur.
  for (const char* text :
       {"\x80", "\xe4\xb8", "\xe4\x41\x42", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80", "\xff"}) {
    const CodePoint read = FirstCodePoint(text);
    EXPECT_EQ(read.value, kInvalidCodePoint);
    EXPECT_EQ(read.bytes, 1u);
  }
}

}  // namespace
}  // namespace muster
