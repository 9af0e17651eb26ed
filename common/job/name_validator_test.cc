#include "common/job/name_validator.h"

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

}  // namespace
}  // namespace muster
