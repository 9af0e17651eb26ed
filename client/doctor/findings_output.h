#ifndef MUSTER_CLIENT_DOCTOR_FINDINGS_OUTPUT_H_
#define MUSTER_CLIENT_DOCTOR_FINDINGS_OUTPUT_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "client/doctor/finding.h"
#include "client/doctor/judge_cluster.h"

namespace muster {

struct FindingCounts {
  size_t checks = 0;
  size_t warnings = 0;
  size_t problems = 0;
};
FindingCounts CountFindings(const Findings& findings);

// Says which findings to show: those that are not well, or all.
enum class Shown { kNotWell, kAll };

// Returns the findings in lines of at most 80 characters (longer words stay whole): under each
// daemon's name, with its machine, the problems first; what several daemons share is said once,
// under all their names. A last line counts. Texts from elsewhere are made printable.
std::string FindingsText(const ExaminedCluster& cluster, const Findings& findings, Shown shown);

// Returns all findings, their counts and the number of links.
nlohmann::ordered_json FindingsJson(const ExaminedCluster& cluster, const Findings& findings);

}  // namespace muster

#endif  // MUSTER_CLIENT_DOCTOR_FINDINGS_OUTPUT_H_
