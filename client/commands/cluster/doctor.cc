#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cluster/exit_code.h"
#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "client/doctor/examination_caller.h"
#include "client/doctor/finding.h"
#include "client/doctor/findings_output.h"
#include "client/doctor/judge_cluster.h"
#include "client/doctor/judge_daemon.h"
#include "client/doctor/reach_coordinator.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/rpc/certificate_ends.h"
#include "common/rpc/membership/protocol.h"
#include "common/rpc/rpc_credentials.h"
#include "common/text/dump_json.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

struct DoctorArguments {
  uint32_t wait_seconds = 60;
  Shown shown = Shown::kNotWell;
};

Finding ClientProblem(const std::string& check, const absl::Status& status,
                      const std::string& to_do) {
  return {.severity = Finding::Severity::kProblem,
          .where = kTheClient,
          .check = check,
          .seen = absl::StrCat(status.message(), "."),
          .to_do = to_do};
}

// Judges this client's own certificate.
void LookAtCertificate(const TlsFiles& files, Findings& findings) {
  if (files.None()) return;
  const auto ends = ReadCertificateEnds(files);
  // Where the files are used, it is told what is wrong with them.
  if (!ends.ok()) return;
  v1::CertificateFacts facts;
  facts.set_path(files.certificate);
  facts.set_subject(ends->subject);
  facts.set_ends_unix(absl::ToUnixSeconds(ends->certificate));
  facts.set_authority_ends_unix(absl::ToUnixSeconds(ends->authority));
  JudgeCertificate(kTheClient, facts, absl::Now(), findings);
}

v1::VersionFacts OwnVersion() {
  v1::VersionFacts version;
  version.set_release(kRelease);
  version.set_commit(Commit());
  version.set_protocol(kProtocolVersion);
  return version;
}

// Makes all checks that can be made. Returns whether the coordinator was reached. Other errors than
// findings: FailedPrecondition, another client examines the cluster.
absl::StatusOr<bool> Examine(const Session& session, const DoctorArguments& arguments,
                             ExaminedCluster& cluster, Findings& findings) {
  const absl::StatusOr<Session::Coordinator> coordinator = session.FindCoordinator();
  if (!coordinator.ok()) {
    findings.push_back(ClientProblem("coordinator", coordinator.status(),
                                     "Name the cluster with --coordinator HOST:PORT, or start one "
                                     "with `muster up`."));
    return false;
  }
  LookAtCertificate(coordinator->tls, findings);
  const auto credentials = RpcCredentials::Of(coordinator->tls, TlsUse::kCalls);
  if (!credentials.ok()) {
    findings.push_back(ClientProblem("certificate", credentials.status(),
                                     "Correct the files of --tls-authority, --tls-certificate and "
                                     "--tls-key."));
    return false;
  }
  if (!ReachCoordinator(coordinator->address, *credentials, findings)) return false;
  ExaminationCaller caller(coordinator->address, *credentials);
  bool began = false;
  const absl::Status examined = caller.Examine(
      absl::Seconds(arguments.wait_seconds), [&](const v1::ExaminationUpdate& update) {
        if (!began && session.output == Session::Output::kText) {
          PrintError("muster: examines %d daemons, for %d seconds at most\n", update.daemons_size(),
                     arguments.wait_seconds);
        }
        began = true;
        cluster.Add(update);
      });
  if (!examined.ok() && !began) return examined;
  if (!examined.ok()) {
    findings.push_back(ClientProblem("coordinator", examined,
                                     "Look at the coordinator's log, and examine again; what came "
                                     "before is judged."));
  }
  for (Finding& finding : JudgeCluster(cluster, OwnVersion(), absl::Now())) {
    findings.push_back(std::move(finding));
  }
  return true;
}

absl::Status Run(Session& session, const DoctorArguments& arguments) {
  ExaminedCluster cluster;
  Findings findings;
  MUSTER_ASSIGN_OR_RETURN(const bool reached, Examine(session, arguments, cluster, findings));
  if (session.output == Session::Output::kJson) {
    PrintJsonText(DumpJson(FindingsJson(cluster, findings), 1));
  } else {
    Print("%s", FindingsText(cluster, findings, arguments.shown));
  }
  const size_t problems = CountFindings(findings).problems;
  const std::string found =
      absl::StrCat("the examination found ", problems, problems == 1 ? " problem" : " problems");
  if (!reached) return NoCoordinatorError(found);
  return problems == 0 ? absl::OkStatus() : absl::FailedPreconditionError(found);
}

}  // namespace

void AddDoctor(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand(
      "doctor", "Examine the cluster from here and from every daemon, and say what to do");
  auto arguments = std::make_shared<DoctorArguments>();
  command->add_flag_callback(
      "--all", [arguments] { arguments->shown = Shown::kAll; }, "Also show what is well");
  command->add_option("--wait", arguments->wait_seconds, "Longest time for the daemons to report")
      ->check(CLI::Range(5u, 600u))
      ->capture_default_str()
      ->option_text("SECONDS");
  command->footer(
      "Example: muster doctor --all\n"
      "Daemons write up to 16 MiB to a file that has no name in each of their folders, and send "
      "one "
      "another up to 64 MiB, so running jobs are slower meanwhile. The exit code is 0 if there is "
      "no problem, whether or not there are warnings.");
  command->callback(
      [&session, arguments] { session.Run([&] { return Run(session, *arguments); }); });
}

}  // namespace muster
