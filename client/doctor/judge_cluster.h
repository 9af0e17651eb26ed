#ifndef MUSTER_CLIENT_DOCTOR_JUDGE_CLUSTER_H_
#define MUSTER_CLIENT_DOCTOR_JUDGE_CLUSTER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/doctor/finding.h"
#include "proto/examination.pb.h"

// Judges an examination of a whole cluster. Pure, as judge_daemon.h.
namespace muster {

// All that an examination brought.
struct ExaminedCluster {
  std::vector<v1::ExaminedDaemon> daemons;
  // The reports of both stages, joined, by the daemon's id.
  std::map<std::string, v1::DaemonReport> reports;
  v1::ExaminationUpdate::Last last;

  void Add(const v1::ExaminationUpdate& update);
};

// Returns how findings call a daemon.
std::string NameOfDaemon(const std::string& id);

// Looks for daemons that were lost or did not report, and for a cluster without workers.
void JudgePresence(const ExaminedCluster& cluster, Findings& findings);

// Compares what the daemons of one machine have promised together with its memory.
void JudgePromisedMemory(const ExaminedCluster& cluster, Findings& findings);

// Compares the folders that several daemons name with --data-root.
void JudgeFolders(const ExaminedCluster& cluster, Findings& findings);

// Looks at ports that cannot be reached, and at slow links. A daemon that reaches nobody is one
// finding, and so is one that others do not reach.
void JudgeLinks(const ExaminedCluster& cluster, Findings& findings);

// Does all of the above, and judges each daemon by itself. `client` is this program's version.
Findings JudgeCluster(const ExaminedCluster& cluster, const v1::VersionFacts& client,
                      absl::Time now);

}  // namespace muster

#endif  // MUSTER_CLIENT_DOCTOR_JUDGE_CLUSTER_H_
