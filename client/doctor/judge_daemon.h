#ifndef MUSTER_CLIENT_DOCTOR_JUDGE_DAEMON_H_
#define MUSTER_CLIENT_DOCTOR_JUDGE_DAEMON_H_

#include <string>

#include "absl/time/time.h"
#include "client/doctor/finding.h"
#include "proto/examination.pb.h"

// Judges what one process measured. Each function looks at one kind of facts and adds its findings,
// which are those of `where`. Pure: equal facts get equal findings.
namespace muster {

// An end less than 30 days away is a warning, one that is past a problem.
void JudgeCertificate(const std::string& where, const v1::CertificateFacts& facts, absl::Time now,
                      Findings& findings);

// More than a second of difference for certain is a warning.
void JudgeClock(const std::string& where, const v1::ClockFacts& facts, Findings& findings);

// Another release or commit than the coordinator's is a warning, another protocol a problem.
void JudgeVersion(const std::string& where, const v1::VersionFacts& facts,
                  const v1::VersionFacts& coordinator, Findings& findings);

// Looks at the limit of file descriptors, at huge pages and at memory.
void JudgeMachine(const v1::ExaminedDaemon& daemon, const std::string& where,
                  const v1::MachineFacts& facts, Findings& findings);

void JudgeDisk(const std::string& where, const v1::DiskFacts& facts, Findings& findings);

// Looks at what a server or worker sees of the checkpoint root, or whether the coordinator could
// write there.
void JudgeRoot(const v1::ExaminedDaemon& daemon, const std::string& where,
               const v1::RootFacts& facts, Findings& findings);

}  // namespace muster

#endif  // MUSTER_CLIENT_DOCTOR_JUDGE_DAEMON_H_
