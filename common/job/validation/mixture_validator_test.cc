#include "common/job/validation/mixture_validator.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  v1::MixtureData mixture;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &mixture)) << text;
  return std::string(ValidateMixture(mixture).message());
}

TEST(MixtureValidatorTest, TakesMixtures) {
  EXPECT_EQ(ErrorOf(R"(
    sources { name: "web" sequences { path: "a" } weight: 3 }
    sources { name: "code.v2" sequences { path: "b" } weight: 0 epochs: 1.5 }
    changes { step: 10 weights { key: "code.v2" value: 1 } }
    changes { step: 20 weights { key: "web" value: 0 } })"),
            "");
}

TEST(MixtureValidatorTest, NamesWhatIsWrong) {
  const std::string web = R"(sources { name: "web" sequences { path: "a" } weight: 1 })";
  EXPECT_THAT(ErrorOf(""), HasSubstr("data.mixture.sources is 0 sources; name 1 to 64"));
  EXPECT_THAT(ErrorOf(R"(sources { name: "a b" sequences { path: "a" } weight: 1 })"),
              HasSubstr("data.mixture.sources[0].name is \"a b\"; give a name of letters"));
  EXPECT_THAT(ErrorOf(R"(sources { name: "a" weight: 1 })"),
              HasSubstr("data.mixture.sources[0].sequences.path is empty"));
  EXPECT_THAT(ErrorOf(web + web), HasSubstr("sources[1].name is \"web\"; another source has"));
  EXPECT_THAT(ErrorOf(R"(sources { name: "a" sequences { path: "a" } weight: -1 })"),
              HasSubstr("sources[0].weight is -1; it must be at least 0"));
  EXPECT_THAT(ErrorOf(R"(sources { name: "a" sequences { path: "a" } weight: nan })"),
              HasSubstr("sources[0].weight is nan"));
  EXPECT_THAT(ErrorOf(R"(sources { name: "a" sequences { path: "a" } weight: 1 epochs: -2 })"),
              HasSubstr("sources[0].epochs is -2; give a number above 0"));
  EXPECT_THAT(ErrorOf(R"(sources { name: "a" sequences { path: "a" } })"),
              HasSubstr("the sum of data.mixture's weights is 0; give at least one"));
  EXPECT_THAT(ErrorOf(web + R"(changes { step: 5 weights { key: "wed" value: 1 } })"),
              HasSubstr("changes[0].weights.wed names no source of the mixture"));
  EXPECT_THAT(ErrorOf(web + R"(changes { step: 5 weights { key: "web" value: 0 } })"),
              HasSubstr("from step 5 on is 0"));
  EXPECT_THAT(ErrorOf(web + "changes { step: 5 } changes { step: 5 }"),
              HasSubstr("changes[1].step is 5; changes come in order of steps"));
  EXPECT_THAT(ErrorOf(web + "changes { step: 0 }"), HasSubstr("changes[0].step is 0"));
}

}  // namespace
}  // namespace muster
