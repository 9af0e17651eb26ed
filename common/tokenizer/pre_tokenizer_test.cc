#include "common/tokenizer/pre_tokenizer.h"

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Words(absl::string_view text) {
  std::vector<std::string> words;
  ForEachWord(text, [&words](absl::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(PreTokenizerTest, CutsAsItsContractSays) {
  EXPECT_THAT(Words("I'll see  2 dogs!"), ElementsAre("I", "'ll", " see", " ", " 2", " dogs", "!"));
  EXPECT_THAT(Words("a\n\nb"), ElementsAre("a", "\n", "\n", "b"));
  EXPECT_THAT(Words("x   "), ElementsAre("x", "   "));
  EXPECT_THAT(Words(""), ElementsAre());
}

TEST(PreTokenizerTest, CutsAsThePublishedRule) {
  std::ifstream file("common/tokenizer/testdata/words.txt");
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

TEST(PreTokenizerTest, BytesThatAreNoTextAreOtherAndNothingIsLost) {
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
