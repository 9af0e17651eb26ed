#ifndef MUSTER_COMMON_SEARCH_SEARCH_FOR_TESTING_H_
#define MUSTER_COMMON_SEARCH_SEARCH_FOR_TESTING_H_

#include <string>

#include "common/job/test_jobs.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/search.pb.h"

namespace muster {

// Returns a search of 10 trials of SmallJob by loss, with further fields from protobuf's text
// format.
inline v1::SearchSpec SmallSearch(const std::string& fields) {
  v1::SearchSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(fields, &spec)) << fields;
  v1::JobSpec job = SmallJob();
  job.MergeFrom(spec.job());
  *spec.mutable_job() = job;
  if (spec.name().empty()) spec.set_name("sweep");
  if (spec.objective().metric().empty()) spec.mutable_objective()->set_metric("loss");
  if (spec.trials() == 0 && !spec.has_grid() && !spec.has_hyperband()) {
    spec.set_trials(10);
  }
  return spec;
}

}  // namespace muster

#endif  // MUSTER_COMMON_SEARCH_SEARCH_FOR_TESTING_H_
