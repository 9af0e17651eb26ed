#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/tokenizer/words/text_divider.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Words(absl::string_view text) {
  std::vector<std::string> words;
  Gpt2Words()->ForEachPiece(text, TextStart::kText, [&words](const TextDivider::Piece& piece) {
    words.emplace_back(piece.text);
  });
  return words;
}

TEST(Gpt2WordsTest, CutsAsItsContractSays) {
  EXPECT_THAT(Words("I'll see  2 dogs!"), ElementsAre("I", "'ll", " see", " ", " 2", " dogs", "!"));
  EXPECT_THAT(Words("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(Words("x   "), ElementsAre("x", "   "));
  EXPECT_THAT(Words(""), ElementsAre());
}

TEST(Gpt2WordsTest, CutsAsThePublishedRule) {
  std::ifstream file("common/tokenizer/words/testdata/words.txt");
  ASSERT_TRUE(file.good());
  int texts = 0;
  for (std::string line; std::getline(file, line); ++texts) {
    std::vector<std::string> expected;
    for (const absl::string_view word : absl::StrSplit(line, ' ')) {
      expected.push_back(absl::HexStringToBytes(word));
    }
    EXPECT_EQ(Words(absl::StrJoin(expected, "")), expected) << line;
  }
  EXPECT_GT(texts, 600);
}

TEST(Gpt2WordsTest, NoWordIsLongerThanItsLimit) {
  const std::string letters(3 * kLongestWord + 5, 'a');
  std::vector<std::string> words = Words("x 1" + letters);
  ASSERT_EQ(words.size(), 6u);
  EXPECT_EQ(words[2].size(), kLongestWord);
  EXPECT_EQ(words[5].size(), 5u);
  // The space before counts, and no code point is cut in two.
  std::string accents = " ";
  for (size_t i = 0; i < kLongestWord; ++i) accents += "\u00e9";
  words = Words(accents);
  ASSERT_EQ(words.size(), 3u);
  EXPECT_EQ(words[0].size(), kLongestWord - 1);
  EXPECT_EQ(words[1].size(), kLongestWord);
  EXPECT_EQ(words[2], "\u00e9");
  for (const char* run : {" ", "\n", "-", "7"}) {
    std::string text;
    for (size_t i = 0; i < 2 * kLongestWord + 3; ++i) text += run;
    words = Words(text + "b");
    EXPECT_EQ(absl::StrJoin(words, ""), text + "b");
    for (const std::string& word : words) EXPECT_LE(word.size(), kLongestWord);
  }
}

TEST(Gpt2WordsTest, BytesThatAreNoTextAreOtherAndNothingIsLost) {
  EXPECT_THAT(Words("ab\xff\xfe cd"), ElementsAre("ab", "\xff\xfe", " cd"));
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 40, '\0');
    for (char& byte : text) byte = static_cast<char>(random() % (round % 2 == 0 ? 256 : 48));
    const std::vector<std::string> words = Words(text);
    EXPECT_EQ(absl::StrJoin(words, ""), text);
    for (const std::string& word : words) EXPECT_FALSE(word.empty());
  }
}

}  // namespace
}  // namespace muster
