#include "common/tokenizer/words/rewriter.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

std::string Applied(const Rewriter& rewriter, absl::string_view text,
                    TextPlace place = TextPlace::kBegins) {
  std::string buffer;
  return std::string(rewriter.Apply(text, place, buffer));
}

Rewriter Of(Rewriter::Step step) {
  Rewriter rewriter;
  rewriter.Add(std::move(step));
  return rewriter;
}

TEST(RewriterTest, NormalizesByUnicodesForms) {
  const Rewriter nfc = Of(Rewriter::Form::kNfc);
  EXPECT_EQ(Applied(nfc, "cafe\u0301 \u212b \ufb01"), "caf\u00e9 \u00c5 \ufb01");
  EXPECT_EQ(Applied(nfc, "\u1112\u1161\u11ab"), "\ud55c");
  // Marks are put in order, whatever is between them and their letter's neighbours.
  EXPECT_EQ(Applied(nfc, "q\u0307\u0323x"), "q\u0323\u0307x");
  EXPECT_EQ(Applied(Of(Rewriter::Form::kNfd), "\u00e9\u00c5"), "e\u0301A\u030a");
  EXPECT_EQ(Applied(Of(Rewriter::Form::kNfkc), "\ufb01 \uff21 \u2026"), "fi A ...");
  EXPECT_EQ(Applied(Of(Rewriter::Form::kNfkd), "\ufb01\u00e9"), "fie\u0301");
  EXPECT_EQ(Applied(nfc, "e\u0301\xff\u0301\xe4\xb8"), "\u00e9\xff\u0301\xe4\xb8");
  EXPECT_EQ(Applied(nfc, ""), "");
}

TEST(RewriterTest, StepsFollowOneAnother) {
  Rewriter rewriter;
  rewriter.Add(Rewriter::Strip{true, false});
  rewriter.Add(Rewriter::Prepend{"\u2581"});
  rewriter.Add(Rewriter::Replace{" ", "\u2581"});
  EXPECT_EQ(Applied(rewriter, " \u3000a b "), "\u2581a\u2581b\u2581");
  EXPECT_EQ(Applied(rewriter, "a", TextPlace::kGoesOn), "a");
  EXPECT_EQ(Applied(rewriter, "  "), "");
  EXPECT_EQ(Applied(Of(Rewriter::Strip{false, true}), " a\u2003\n"), " a");
  EXPECT_EQ(Applied(Of(Rewriter::Prepend{" ", true}), " a"), " a");
  EXPECT_EQ(Applied(Of(Rewriter::Prepend{" ", true}), "a"), " a");
}

TEST(RewriterTest, ReplacesMatches) {
  auto expression = Expression::Create(" {2,}");
  ASSERT_TRUE(expression.ok());
  EXPECT_EQ(Applied(Of(Rewriter::ReplaceMatches{*std::move(expression), "_"}), "  a b   c  "),
            "_a b_c_");
  auto nothing = Expression::Create("(?=\u00e9)");
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(Applied(Of(Rewriter::ReplaceMatches{*std::move(nothing), "-"}), "\u00e9\u00e9"),
            "-\u00e9-\u00e9");
}

TEST(RewriterTest, TextsDoNotGrowWithoutBound) {
  Rewriter rewriter;
  for (int i = 0; i < 20; ++i) rewriter.Add(Rewriter::Replace{"a", std::string(10, 'a')});
  EXPECT_LT(Applied(rewriter, std::string(1'000, 'a')).size(), 100'000u);
  auto expression = Expression::Create("a");
  ASSERT_TRUE(expression.ok());
  const std::shared_ptr<const Expression> shared = *std::move(expression);
  rewriter = Rewriter();
  for (int i = 0; i < 20; ++i) {
    rewriter.Add(Rewriter::ReplaceMatches{shared, std::string(10, 'a')});
  }
  EXPECT_LT(Applied(rewriter, std::string(1'000, 'a')).size(), 100'000u);
}

TEST(RewriterTest, KnowsWhereATextMayBeDivided) {
  const Rewriter nfc = Of(Rewriter::Form::kNfc);
  EXPECT_TRUE(nfc.keeps_divisions());
  EXPECT_EQ(nfc.NextPlace("abc", 1), 1u);
  // Behind the mark, and behind what it may combine with.
  EXPECT_EQ(nfc.NextPlace("ae\u0301bc", 2), 5u);
  EXPECT_EQ(nfc.NextPlace("\u4e2d\u6587", 1), 3u);
  EXPECT_EQ(nfc.NextPlace("a\u0301", 1), 3u);
  const Rewriter spaces = Of(Rewriter::Replace{" ", "\u2581"});
  EXPECT_TRUE(spaces.keeps_divisions());
  EXPECT_EQ(spaces.NextPlace("ae\u0301bc", 2), 2u);
  EXPECT_EQ(spaces.NextPlace("ae\u0301bc", 3), 4u);
  EXPECT_FALSE(Of(Rewriter::Replace{"ab", "c"}).keeps_divisions());
  EXPECT_FALSE(Of(Rewriter::Strip{true, true}).keeps_divisions());
  EXPECT_TRUE(Of(Rewriter::Prepend{"x"}).changes_beginnings());
  EXPECT_FALSE(spaces.changes_beginnings());
}

TEST(RewriterTest, WhiteSpaceIsUnicodesProperty) {
  for (const uint32_t space : {0x9u, 0xdu, 0x20u, 0x85u, 0xa0u, 0x2003u, 0x2028u, 0x3000u}) {
    EXPECT_TRUE(IsWhiteSpace(space)) << std::hex << space;
  }
  for (const uint32_t other : {0x0u, 0x1cu, 0x2eu, 0x180eu, 0x200bu, 0xfeffu}) {
    EXPECT_FALSE(IsWhiteSpace(other)) << std::hex << other;
  }
}

}  // namespace
}  // namespace muster
