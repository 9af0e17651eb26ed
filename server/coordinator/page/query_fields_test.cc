#include "server/coordinator/page/query_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/job_service.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(SetFieldsTest, SetsFieldsByTheirNamesInJson) {
  v1::ListJobsRequest list;
  ASSERT_TRUE(SetFields({{"pageSize", "10"},
                         {"pageToken", "x"},
                         {"states", "FAILED"},
                         {"states", "PENDING"},
                         {"labels", "team=a=b"},
                         {"labels", "run="},
                         {"newestFirst", "true"},
                         {"view", "SHORT"}},
                        {}, list)
                  .ok());
  EXPECT_EQ(list.page_size(), 10u);
  EXPECT_EQ(list.page_token(), "x");
  EXPECT_THAT(list.states(), ElementsAre(v1::FAILED, v1::PENDING));
  EXPECT_THAT(list.labels(), UnorderedElementsAre(Pair("team", "a=b"), Pair("run", "")));
  EXPECT_TRUE(list.newest_first());
  EXPECT_EQ(list.view(), v1::ListJobsRequest::SHORT);
  v1::ReadLogsRequest log;
  ASSERT_TRUE(SetFields({{"slot", "0"}, {"offset", "18446744073709551615"}}, {"follow"}, log).ok());
  EXPECT_TRUE(log.has_slot());
  EXPECT_FALSE(log.has_tail_lines());
  EXPECT_EQ(log.offset(), UINT64_MAX);
}

TEST(SetFieldsTest, RefusesWhatNoFieldTakes) {
  const QueryFields bad[] = {{{"page_size", "1"}},
                             {{"", ""}},
                             {{"pageSize", ""}},
                             {{"pageSize", "-1"}},
                             {{"pageSize", "4294967296"}},
                             {{"pageSize", "1"}, {"pageSize", "1"}},
                             {{"newestFirst", "yes"}},
                             {{"view", "LONG"}},
                             {{"states", "0"}},
                             {{"labels", "team"}},
                             // Beyond request_limits.cc's.
                             {{"owner", std::string(257, 'o')}},
                             {{"pageToken", "kept"}}};
  for (const QueryFields& query : bad) {
    v1::ListJobsRequest list;
    const absl::Status status = SetFields(query, {"pageToken"}, list);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << query.front().first;
  }
  v1::ListJobsRequest list;
  EXPECT_THAT(
      SetFields({{"pagesize", "1"}}, {"pageToken"}, list).message(),
      AllOf(HasSubstr("pagesize"), HasSubstr("pageSize, states"), Not(HasSubstr("pageToken"))));
  EXPECT_THAT(SetFields({{"view", "x"}}, {}, list).message(), HasSubstr("WHOLE, SHORT"));
}

}  // namespace
}  // namespace muster
