#ifndef MUSTER_SERVER_SHARD_JOBS_SHARD_MAP_CHECKS_H_
#define MUSTER_SERVER_SHARD_JOBS_SHARD_MAP_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class EndGenerationRequest;
class OpenTablesRequest;
}  // namespace v1

// Returns UNAVAILABLE if a caller's shard map names another process. What an earlier process held
// in memory is gone, and another server at its address never had it: neither may look like the
// start of the job. The coordinator decides what becomes of the job, once it knows of this process.
// Requests without a map name none, and processes without a coordinator have no nonce.
absl::Status CheckProcess(const v1::OpenTablesRequest& request, uint64_t process_nonce,
                          absl::string_view server_name);
absl::Status CheckProcess(const v1::EndGenerationRequest& request, uint64_t process_nonce,
                          absl::string_view server_name);

// Returns FAILED_PRECONDITION if the partition came here by a move and `term` is not later than the
// move's, `adopted` (0: it came by none).
absl::Status CheckTerm(uint64_t adopted, const std::string& job_id, uint32_t partition,
                       uint64_t term);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_SHARD_MAP_CHECKS_H_
