#include "common/text/message_utf8.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(CheckUtf8Test, NamesTheFieldAndShowsItsValue) {
  v1::JobSpec spec;
  spec.set_name(
      "gr\xc3\xb6\xc3\x9f"
      "er");
  spec.mutable_data()->mutable_text()->set_path("gr\xc3\xb6sse.txt");
  EXPECT_EQ(CheckUtf8(spec), absl::OkStatus());
  spec.mutable_data()->mutable_text()->set_path("gr\xf6sse.txt");
  const absl::Status status = CheckUtf8(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("data.text.path is not UTF-8: gr\\xf6sse.txt"));
}

TEST(CheckUtf8Test, LooksIntoListsAndSkipsBytes) {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_csv()->add_numeric("good");
  spec.mutable_data()->mutable_csv()->add_numeric(
      "b\xe4"
      "d");
  EXPECT_THAT(std::string(CheckUtf8(spec).message()), HasSubstr("data.csv.numeric is not UTF-8"));
  spec.Clear();
  (*spec.mutable_labels())["team"] = "\xff";
  EXPECT_THAT(std::string(CheckUtf8(spec).message()), HasSubstr("labels.value is not UTF-8"));
  v1::ExportChunk chunk;
  chunk.set_data("\xff\xfe");
  EXPECT_EQ(CheckUtf8(chunk), absl::OkStatus());
}

}  // namespace
}  // namespace muster
