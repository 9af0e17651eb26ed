#include "server/shard/jobs/shard_map_checks.h"

#include "absl/strings/str_cat.h"
#include "proto/parameter_service.pb.h"

namespace muster {

namespace {

absl::Status CheckNonce(uint64_t asked, const std::string& job_id, uint64_t process_nonce,
                        absl::string_view server_name) {
  if (asked == 0 || process_nonce == 0 || asked == process_nonce) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      server_name, " is process ", absl::Hex(process_nonce), ", but the caller's shard map of job ",
      job_id, " names process ", absl::Hex(asked),
      "; the server was restarted since, ask the coordinator for the map again"));
}

}  // namespace

absl::Status CheckProcess(const v1::OpenTablesRequest& request, uint64_t process_nonce,
                          absl::string_view server_name) {
  return CheckNonce(request.process_nonce(), request.job_id(), process_nonce, server_name);
}

absl::Status CheckProcess(const v1::EndGenerationRequest& request, uint64_t process_nonce,
                          absl::string_view server_name) {
  return CheckNonce(request.process_nonce(), request.job_id(), process_nonce, server_name);
}

absl::Status CheckTerm(uint64_t adopted, const std::string& job_id, uint32_t partition,
                       uint64_t term) {
  if (adopted == 0 || term > adopted) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "partition ", partition, " of job ", job_id, " came here by the move of term ", adopted,
      " and is served under later terms, the request has term ", term, "; refresh the shard map"));
}

}  // namespace muster
