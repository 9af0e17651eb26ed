#ifndef MUSTER_CLIENT_DOCTOR_FINDING_H_
#define MUSTER_CLIENT_DOCTOR_FINDING_H_

#include <string>
#include <vector>

namespace muster {

// Who was examined when no daemon was.
inline constexpr char kTheClient[] = "this client";
inline constexpr char kTheCoordinator[] = "the coordinator";

// What one check of an examination came to.
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
  // What was checked, such as "certificate".
  std::string check;
  // A sentence that says what was seen.
  std::string seen;
  // A sentence that says what to do; empty if all is well.
  std::string to_do;
};

using Findings = std::vector<Finding>;

}  // namespace muster

#endif  // MUSTER_CLIENT_DOCTOR_FINDING_H_
