#include "common/tokenizer/words/expression.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<std::pair<size_t, size_t>> Matches(const std::string& pattern, absl::string_view text) {
  const auto expression = Expression::Create(pattern);
  EXPECT_TRUE(expression.ok()) << expression.status();
  ExpressionMatcher matcher(**expression);
  matcher.SetText(text);
  std::vector<std::pair<size_t, size_t>> matches;
  for (size_t from = 0; from < text.size();) {
    const auto match = matcher.Find(from);
    if (!match.has_value()) break;
    matches.emplace_back(match->begin, match->end);
    from = match->end > from ? match->end : from + 1;
  }
  return matches;
}

TEST(ExpressionTest, FindsMatchesOfCodePoints) {
  EXPECT_THAT(Matches("\\p{L}+", "ab \u00e9\u4e2d1x"),
              ElementsAre(Pair(0, 2), Pair(3, 8), Pair(9, 10)));
  EXPECT_THAT(Matches("(?i:'S)", "'s 'S '\u017f"), ElementsAre(Pair(0, 2), Pair(3, 5), Pair(6, 9)));
  EXPECT_THAT(Matches("x", "abc"), ElementsAre());
}

TEST(ExpressionTest, BytesThatAreNotUtf8AreControlCharacters) {
  EXPECT_THAT(Matches("\\p{Cc}+", "a\xff\xfe\xe4\xb8z"), ElementsAre(Pair(1, 5)));
  // Of a text after one that had to be changed.
  const auto expression = Expression::Create("b");
  ASSERT_TRUE(expression.ok());
  ExpressionMatcher matcher(**expression);
  matcher.SetText("\xff");
  EXPECT_FALSE(matcher.Find(0).has_value());
  matcher.SetText("b");
  EXPECT_TRUE(matcher.Find(0).has_value());
}

TEST(ExpressionTest, LongMatchesAreCutAndFarOnesFound) {
  std::string text;
  for (size_t i = 0; i < kLongestWord; ++i) text += "\u00e9";
  text += "!";
  EXPECT_THAT(Matches("\\p{L}+", text),
              ElementsAre(Pair(0, kLongestWord), Pair(kLongestWord, 2 * kLongestWord)));
  EXPECT_THAT(Matches("!", text), ElementsAre(Pair(2 * kLongestWord, 2 * kLongestWord + 1)));
  std::string far(5 * kLongestWord + 7, ' ');
  far += "ab";
  EXPECT_THAT(Matches("[ab]+", far), ElementsAre(Pair(far.size() - 2, far.size())));
}

// An expression that takes exponential time must not stop a worker.
TEST(ExpressionTest, WhatTakesTooManyStepsIsCut) {
  const std::string text = std::string(200, 'a') + "!";
  const auto matches = Matches("(?:a|aa|a{3})+(?:a|aa)+$", text);
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].second, text.size());
}

TEST(ExpressionTest, SaysWhyAnExpressionIsRefused) {
  EXPECT_THAT(
      std::string(Expression::Create("a(b").status().message()),
      HasSubstr("PCRE2 refuses the expression at byte 3 of 3: missing closing parenthesis"));
  EXPECT_THAT(std::string(Expression::Create("\\p{Secret}").status().message()),
              HasSubstr("unknown property"));
  EXPECT_FALSE(Expression::Create(std::string(100'000, 'a')).ok());
  EXPECT_FALSE(Expression::Create(std::string(1'000, '(') + std::string(1'000, ')')).ok());
}

TEST(ExpressionTest, KnowsWhetherItLooksBehind) {
  EXPECT_FALSE((*Expression::Create("a(?!b)$"))->looks_behind());
  EXPECT_TRUE((*Expression::Create("(?<=b)a"))->looks_behind());
}

TEST(CodePointBeforeTest, FindsTheBeginningOfACharacter) {
  const std::string text = "a\u4e2d\xff";
  EXPECT_EQ(CodePointBefore(text, 0), 0u);
  EXPECT_EQ(CodePointBefore(text, 1), 1u);
  EXPECT_EQ(CodePointBefore(text, 2), 1u);
  EXPECT_EQ(CodePointBefore(text, 3), 1u);
  EXPECT_EQ(CodePointBefore(text, 4), 4u);
  EXPECT_EQ(CodePointBefore(text, 5), 5u);
  EXPECT_EQ(CodePointBefore("\x80\x80\x80\x80\x80", 4), 4u);
}

}  // namespace
}  // namespace muster
