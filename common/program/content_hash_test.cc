#include "common/program/content_hash.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(ContentHashTest, NamesBytesHoweverTheyCome) {
  // FIPS 180-2, appendix B.1.
  const std::string name =
      "sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  ContentHash whole;
  whole.Add("abc");
  EXPECT_EQ(whole.Name(), name);
  ContentHash parts;
  for (const char* part : {"a", "", "bc"}) parts.Add(part);
  EXPECT_EQ(parts.Name(), name);
  EXPECT_TRUE(IsContentName(name));
}

TEST(ContentHashTest, OtherTextsAreNoNames) {
  const std::string digits(64, 'a');
  EXPECT_TRUE(IsContentName(absl::StrCat("sha256-", digits)));
  for (const std::string& text :
       {std::string(), digits, absl::StrCat("sha256-", digits, "a"), std::string("sha256-aa"),
        absl::StrCat("sha256-", std::string(64, 'A')), absl::StrCat("sha512-", digits),
        absl::StrCat("sha256-../", std::string(61, 'a'))}) {
    EXPECT_FALSE(IsContentName(text)) << text;
  }
}

}  // namespace
}  // namespace muster
