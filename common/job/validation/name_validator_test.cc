#include "common/job/validation/name_validator.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(NameValidatorTest, TakesTextOfAnyLanguage) {
  v1::JobSpec spec;
  EXPECT_TRUE(ValidateNames(spec).ok());
  spec.set_name("Größe 大きさ \xc2\xa0 \"a\" / $(b)");
  spec.set_owner("ann");
  spec.set_namespace_("team a");
  EXPECT_TRUE(ValidateNames(spec).ok()) << ValidateNames(spec);
}

TEST(NameValidatorTest, RefusesControlCharactersAndSaysWhere) {
  for (const std::string control : {"\n", "\t", "\x1b[2J", "\x7f", "\xc2\x9b", "\r"}) {
    v1::JobSpec spec;
    spec.set_name("ab" + control + "c");
    const absl::Status status = ValidateNames(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("name is \"ab"), HasSubstr("byte 2")));
    for (const char shown : std::string(status.message())) {
      EXPECT_GE(static_cast<unsigned char>(shown), 0x20);
      EXPECT_NE(shown, 0x7f);
    }
  }
  v1::JobSpec spec;
  spec.set_owner("a\nb");
  EXPECT_THAT(std::string(ValidateNames(spec).message()),
              AllOf(HasSubstr("owner is \"a\\nb\""), HasSubstr("U+000A")));
  spec.clear_owner();
  spec.set_namespace_(std::string("a\0b", 3));
  EXPECT_THAT(std::string(ValidateNames(spec).message()), HasSubstr("namespace is"));
}

TEST(NameValidatorTest, BoundsLabels) {
  v1::JobSpec spec;
  for (size_t i = 0; i < kMostLabels; ++i) {
    (*spec.mutable_labels())["team-" + std::to_string(i)] = "Größe";
  }
  EXPECT_TRUE(ValidateNames(spec).ok()) << ValidateNames(spec);
  (*spec.mutable_labels())["more"] = "";
  EXPECT_THAT(std::string(ValidateNames(spec).message()), HasSubstr("labels has 33 names"));

  const auto refused = [](const std::string& name, const std::string& value) {
    v1::JobSpec spec;
    (*spec.mutable_labels())[name] = value;
    const absl::Status status = ValidateNames(spec);
    return status.ok() ? std::string() : std::string(status.message());
  };
  EXPECT_EQ(refused("a/B.c_d-9", ""), "");
  EXPECT_EQ(refused(std::string(63, 'n'), std::string(256, 'v')), "");
  for (const std::string name : {std::string(), std::string(64, 'n'), std::string("a b"),
                                 std::string("a=b"), std::string("\xc3\xa4")}) {
    EXPECT_THAT(refused(name, "v"), HasSubstr("a name has 1 to 63 letters")) << name;
  }
  EXPECT_THAT(refused("team", std::string(257, 'v')), HasSubstr("labels.team has 257 bytes"));
  EXPECT_THAT(refused("team", "a\nb"), AllOf(HasSubstr("labels.team is"), HasSubstr("U+000A")));
}

TEST(NameValidatorTest, ADescriptionMayHaveLines) {
  v1::JobSpec spec;
  spec.set_description("Why:\n\tbecause");
  EXPECT_TRUE(ValidateNames(spec).ok()) << ValidateNames(spec);
  spec.set_description("a\x1b[2J");
  EXPECT_THAT(std::string(ValidateNames(spec).message()), HasSubstr("description is"));
  spec.set_description(std::string(4097, 'a'));
  EXPECT_THAT(std::string(ValidateNames(spec).message()), HasSubstr("description has 4097 bytes"));
}

}  // namespace
}  // namespace muster
