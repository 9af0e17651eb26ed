#ifndef MUSTER_CLIENT_DOCTOR_FINDING_H_
#define MUSTER_CLIENT_DOCTOR_FINDING_H_

#include <string>
#include <vector>

namespace muster {

// Names in place of a daemon's id, for findings about the client and the coordinator.
inline constexpr char kTheClient[] = "this client";
inline constexpr char kTheCoordinator[] = "the coordinator";

// The result of one check of an examination.
struct Finding {
  enum class Severity {
    kOk,
    // Jobs run, but slower or less safely than they could, or not for much longer.
    kWarning,
    // Some jobs cannot run, or cannot recover.
    kProblem,
  };
  Severity severity = Severity::kOk;
  // The daemon's id, or one of the names above.
  std::string where;
  // The subject of the check, such as "certificate".
  std::string check;
  // A sentence that says what was seen.
  std::string seen;
  // A sentence that says what to do; empty if all is well.
  std::string to_do;
};

using Findings = std::vector<Finding>;

}  // namespace muster

#endif  // MUSTER_CLIENT_DOCTOR_FINDING_H_
