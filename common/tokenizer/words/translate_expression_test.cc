#include "common/tokenizer/words/translate_expression.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string Translated(absl::string_view expression) {
  const auto translated = TranslateExpression(expression);
  EXPECT_TRUE(translated.ok()) << translated.status();
  return translated.ok() ? *translated : "";
}

TEST(TranslateExpressionTest, WritesWhatDiffersAsPcre2HasIt) {
  EXPECT_EQ(Translated(" ?[^\\s\\p{L}]+|\\S"), " ?[^\\p{White_Space}\\p{L}]+|\\P{White_Space}");
  EXPECT_EQ(Translated("\\\\s\\.\\d"), "\\\\s\\.\\d");
  EXPECT_EQ(Translated("\\v\\u00e9\\x41\\x{1F600}"), "\\x0b\\x{00e9}\\x{41}\\x{1F600}");
  EXPECT_EQ(Translated("a{,3}b{2,}c{4}d{e"), "a{0,3}b{2,}c{4}d\\{e");
  EXPECT_EQ(Translated("(a)(?i:'s)(?!b)"), "(?:a)(?i:'s)(?!b)");
  EXPECT_EQ(Translated("[^(\\s|[.,!?\\]x])]+"), "[^(\\p{White_Space}|.,!?\\]x)]+");
  EXPECT_EQ(Translated("[[:alpha:]-]"), "[[:alpha:]-]");
  EXPECT_EQ(Translated("\\w[\\w-]\\W"),
            "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}][\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}-]"
            "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]");
  EXPECT_EQ(Translated("[\xe4\xb8\x80-\xe9\xbe\xa5]+\\\xe4\xb8\x80"),
            "[\xe4\xb8\x80-\xe9\xbe\xa5]+\xe4\xb8\x80");
}

TEST(TranslateExpressionTest, RefusesWhatMeansSomethingElseThere) {
  for (const auto& [expression, what] :
       {std::pair("a^", "an anchor at byte 1"),
        std::pair("\\p{N}{1,3}+", "behind an interval at byte 5"),
        std::pair("[a&&b]", "an intersection of classes"),
        std::pair("[a[^b]]", "a class in a class"), std::pair("[]a]", "an empty class"),
        std::pair("[a", "an unfinished class"), std::pair("[a\\W]", "\\W in a class"),
        std::pair("a\\", "an unfinished escape"), std::pair("\\p{L", "an unfinished escape"),
        std::pair("\\pL", "an unfinished escape"), std::pair("\\xg1", "an unfinished escape"),
        std::pair("\\u12", "an unfinished escape"),
        std::pair("(a)\\1", "an escaped letter or digit"),
        std::pair("\\h", "an escaped letter or digit"),
        std::pair("(*ACCEPT)", "a group with a name"), std::pair("(?m:a)", "a group with a name"),
        std::pair("(?<n>a)", "a group with a name")}) {
    EXPECT_THAT(std::string(TranslateExpression(expression).status().message()), HasSubstr(what))
        << expression;
  }
}

TEST(TranslateExpressionTest, TextsStandForThemselves) {
  EXPECT_EQ(ExpressionOfText("a."), "\\x{61}\\x{2e}");
  EXPECT_EQ(ExpressionOfText("\xe2\x96\x81"), "\xe2\x96\x81");
}

}  // namespace
}  // namespace muster
