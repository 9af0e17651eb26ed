#include "common/text/utf8.h"

#include <cstdint>
#include <string>
#include <vector>

#include "common/text/byte_order_mark.h"
#include "common/text/length_of.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(Utf8Test, EveryCodePointIsReadBack) {
  for (uint32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    AppendUtf8(c, text);
    const CodePoint read = FirstCodePoint(text + "x");
    ASSERT_EQ(read.value, c);
    ASSERT_EQ(read.bytes, text.size());
    ASSERT_TRUE(IsUtf8(text));
    ASSERT_EQ(ToUtf8(text), text);
  }
}

TEST(Utf8Test, WhatIsNotUtf8IsWrittenOut) {
  // Stray and missing continuation bytes, overlong forms, a surrogate, past U+10FFFF.
  EXPECT_EQ(ToUtf8("gr\xf6sse.txt"), "gr\\xf6sse.txt");
  EXPECT_EQ(ToUtf8("a\xff\xc3\xa9\xe2\x82z"), "a\\xff\xc3\xa9\\xe2\\x82z");
  EXPECT_EQ(ToUtf8("\x80"), "\\x80");
  EXPECT_EQ(ToUtf8("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(ToUtf8("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(ToUtf8("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(ToUtf8("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(ToUtf8("\xc3"), "\\xc3");
  EXPECT_EQ(ToUtf8(absl::string_view("\0z", 2)), std::string("\0z", 2));
}

TEST(Utf8Test, WhatIsNoUtf8IsOneByte) {
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

// All strings of a few bytes out of those that matter.
TEST(Utf8Test, ToUtf8IsUtf8WhateverTheBytes) {
  const std::string bytes = "a\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xe0\xed\xef\xf0\xf4\xf5\xff";
  std::vector<std::string> texts = {""};
  for (int length = 1; length <= 4; ++length) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const char byte : bytes) longer.push_back(text + byte);
    }
    texts = std::move(longer);
    for (const std::string& text : texts) {
      const std::string valid = ToUtf8(text);
      ASSERT_TRUE(IsUtf8(valid));
      ASSERT_EQ(valid == text, IsUtf8(text));
    }
  }
}

TEST(Utf8Test, ACutNeverFallsWithinACharacter) {
  // 1, 2, 3 and 4 bytes.
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
  const std::vector<size_t> expected = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};
  for (size_t most = 0; most < expected.size(); ++most) {
    const absl::string_view cut = CutUtf8(text, most);
    EXPECT_EQ(cut.size(), expected[most]) << most;
    EXPECT_TRUE(IsUtf8(cut)) << most;
  }
  for (size_t from = 0; from <= text.size(); ++from) {
    const absl::string_view rest = SkipToCharacter(absl::string_view(text).substr(from));
    EXPECT_TRUE(IsUtf8(rest)) << from;
    EXPECT_LT(text.size() - from - rest.size(), 4) << from;
  }
}

TEST(Utf8Test, AnUnfinishedCharacterIsToldFromAWrongOne) {
  EXPECT_EQ(UnfinishedBytes(""), 0);
  EXPECT_EQ(UnfinishedBytes("a"), 0);
  EXPECT_EQ(UnfinishedBytes("a\xc3"), 1);
  EXPECT_EQ(UnfinishedBytes("a\xc3\xa9"), 0);
  EXPECT_EQ(UnfinishedBytes("a\xf0\x9f\x98"), 3);
  EXPECT_EQ(UnfinishedBytes("a\xf0\x9f\x98\x80"), 0);
  EXPECT_EQ(UnfinishedBytes("\xff"), 0);
  EXPECT_EQ(UnfinishedBytes("\x80\x80\x80\x80\x80"), 0);
  // Nothing is held back of what can become no character.
  EXPECT_EQ(CutUtf8("\x80\x80\x80\x80\x80\x80", 5).size(), 5);
}

TEST(ByteOrderMarkTest, IsSkippedOnceAndTheOneOfUtf16Told) {
  EXPECT_EQ(SkipByteOrderMark("\xef\xbb\xbfname"), "name");
  EXPECT_EQ(SkipByteOrderMark("\xef\xbb\xbf\xef\xbb\xbf"), "\xef\xbb\xbf");
  EXPECT_EQ(SkipByteOrderMark("name\xef\xbb\xbf"), "name\xef\xbb\xbf");
  EXPECT_EQ(SkipByteOrderMark("\xef\xbb"), "\xef\xbb");
  for (const absl::string_view text :
       {absl::string_view("\xff\xfen\0", 4), absl::string_view("\xfe\xff\0n", 4),
        absl::string_view("n\0", 2), absl::string_view("\0n", 2)}) {
    EXPECT_TRUE(LooksLikeUtf16(text));
  }
  for (const absl::string_view text : {"", "n", "name", "\xef\xbb\xbfname", "\xc3\xbf"}) {
    EXPECT_FALSE(LooksLikeUtf16(text)) << text;
  }
}

TEST(Utf8Test, ALengthIsInCharacters) {
  EXPECT_EQ(LengthOf(""), "0 characters");
  EXPECT_EQ(LengthOf("\xe2\x82\xac"), "1 character");
  EXPECT_EQ(LengthOf("a\xc3\xa9\xe2\x82\xac\xff\xff"), "5 characters");
}

}  // namespace
}  // namespace muster
