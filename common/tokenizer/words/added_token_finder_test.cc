#include "common/tokenizer/words/added_token_finder.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(AddedTokenFinderTest, FindsTheFirstAndOfThoseTheLongest) {
  const AddedToken end{1, "<|end|>"};
  const AddedToken begin{2, "<|end"};
  const AddedToken other{3, "d|>x"};
  AddedTokenFinder finder;
  EXPECT_TRUE(finder.empty());
  EXPECT_EQ(finder.Next("<|end", 0).token, nullptr);
  for (const AddedToken* token : {&end, &begin, &other}) finder.Add(*token, token->content);
  const absl::string_view text = "a<|end|>x<|end<|en d|>x";
  AddedTokenFinder::Found found = finder.Next(text, 0);
  EXPECT_EQ(found.token, &end);
  EXPECT_EQ(found.begin, 1u);
  EXPECT_EQ(found.end, 8u);
  found = finder.Next(text, found.end);
  EXPECT_EQ(found.token, &begin);
  EXPECT_EQ(found.begin, 9u);
  found = finder.Next(text, found.end);
  EXPECT_EQ(found.token, &other);
  EXPECT_EQ(found.end, text.size());
  EXPECT_EQ(finder.Next(text, found.end).token, nullptr);
}

TEST(AddedTokenFinderTest, TakesWhiteSpaceBesideThem) {
  AddedToken left{1, "<l>"};
  left.takes_left = true;
  AddedToken right{2, "<r>"};
  right.takes_right = true;
  AddedTokenFinder finder;
  finder.Add(left, left.content);
  finder.Add(right, right.content);
  const absl::string_view text = "a \u3000<l>  <r>\n\t b";
  AddedTokenFinder::Found found = finder.Next(text, 0);
  EXPECT_EQ(found.token, &left);
  EXPECT_EQ(found.begin, 1u);
  EXPECT_EQ(found.end, 8u);
  // What a token takes begins at the place at the earliest.
  EXPECT_EQ(finder.Next(text, 2).begin, 2u);
  found = finder.Next(text, found.end);
  EXPECT_EQ(found.token, &right);
  EXPECT_EQ(found.begin, 10u);
  EXPECT_EQ(found.end, text.size() - 1);
}

}  // namespace
}  // namespace muster
