#ifndef MUSTER_COMMON_PROGRAM_PROGRAM_PROOF_H_
#define MUSTER_COMMON_PROGRAM_PROGRAM_PROOF_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class ShippedFolder;
class SubmitJobRequest;
class TaskOrder;
}  // namespace v1

// Proofs that somebody knows the program token (docs/programs.md), for messages that have programs
// run. They are keyed hashes of the message, so that whoever reads one, as another user may who
// takes over the coordinator's port, learns no token, and has nothing run but what it says.

// Returns the proof of a job that runs a program: the HMAC with SHA-256, keyed with the token, of
// these texts, each preceded by its length in 8 bytes, the least first: "submit", request_id,
// working_folder, the number of `command` in decimal digits, each of them, the same of
// `environment`, with each name and value in order of the names' bytes, `resume_from`, and
// `shipped` if there is one: all that says which files run and are read. REQUIRES: the job runs a
// program.
std::string ProofOfSubmit(const v1::SubmitJobRequest& request, absl::string_view token);

// Returns the proof of a folder that is sent for a job, likewise: of "ship", the folder's name, and
// its size in decimal digits. The name is that of the content, so whoever repeats the proof can
// send the same bytes alone.
std::string ProofOfShipped(const v1::ShippedFolder& folder, absl::string_view token);

// Returns the proof of an order to run a program, from all of its fields but `proof` itself and
// `device`, which the worker sets.
std::string ProofOfOrder(const v1::TaskOrder& order, absl::string_view token);

}  // namespace muster

#endif  // MUSTER_COMMON_PROGRAM_PROGRAM_PROOF_H_
