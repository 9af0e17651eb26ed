#ifndef MUSTER_SERVER_SHARD_JOBS_SHARD_MAP_CHECKS_H_
#define MUSTER_SERVER_SHARD_JOBS_SHARD_MAP_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class OpenTablesRequest;
}  // namespace v1

// Whether a caller goes by a shard map that is true of this server.

// Whether the map names this process. What an earlier one held in memory is gone, and another
// server at its address never had it: neither may look like the start of the job. UNAVAILABLE: it
// names another one; the coordinator decides what becomes of the job, as soon as it knows of this
// process. Requests without a map name none, and processes without a coordinator have no nonce.
absl::Status CheckProcess(const v1::OpenTablesRequest& request, uint64_t process_nonce,
                          absl::string_view server_name);

// Whether a partition that came here by the move of term `adopted` (0: by none) is served under
// `term`. FAILED_PRECONDITION: that is of before it came.
absl::Status CheckTerm(uint64_t adopted, const std::string& job_id, uint32_t partition,
                       uint64_t term);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_SHARD_MAP_CHECKS_H_
