#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_GIVEN_FIELDS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_GIVEN_FIELDS_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"

namespace muster {

// Returns the paths of the fields that a specification has, for JobStatus.given: before its
// defaults are filled in, those are what its submitter gave. A message without any field counts,
// too.
std::vector<std::string> GivenFields(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_GIVEN_FIELDS_H_
