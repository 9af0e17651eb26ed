#ifndef MUSTER_COMMON_EXAMINATION_EXAMINER_H_
#define MUSTER_COMMON_EXAMINATION_EXAMINER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/checkpoint/storage.h"
#include "common/examination/examination_client.h"
#include "common/examination/link_probe.h"
#include "common/rpc/certificate_ends.h"
#include "common/rpc/rpc_credentials.h"
#include "common/rpc/tls_files.h"
#include "common/transport/deadline.h"

namespace muster {

namespace v1 {
class CertificateFacts;
class DaemonReport;
class ExaminationOrder;
class ExaminationPeer;
class LinkFacts;
}  // namespace v1

struct ExaminerOptions {
  TlsFiles tls;
  RpcCredentials credentials = RpcCredentials::PlainText();
  // Folders whose disks are measured (--data-dir, --offload-folder); empty: there is none.
  std::string data_folder;
  std::string offload_folder;
  // Folders in which jobs may name files.
  std::vector<std::string> data_roots;
  // Returns where others reach this daemon to measure the way; the secret is the order's. Null:
  // this is the coordinator's process, which nobody measures, and which writes the file in the
  // checkpoint root that the others look for.
  std::function<LinkListenerOptions()> listener;
};

// Measures, in one process, what an examination of the cluster is to find. One thread at a time,
// except for Interrupt.
class Examiner {
 public:
  // Reads the certificate's ends now, since the process uses what its files held when it started.
  // `checkpoints` opens the checkpoint root as the process does. All references outlive it.
  Examiner(ExaminerOptions options, CheckpointStorage& checkpoints, const Clock& clock);
  // Calls End.
  ~Examiner();

  // Carry out the two stages of an order. Block for some seconds. `client` tells the coordinator's
  // time.
  void MeasureMachine(const v1::ExaminationOrder& order, ExaminationClient& client,
                      v1::DaemonReport& report);
  void MeasureLinks(const v1::ExaminationOrder& order, v1::DaemonReport& report);
  // Stops listening, and removes the file in the checkpoint root.
  void End();

  // Ends measurements, the one under way and all later ones, early. Thread-safe.
  void Interrupt() { stop_.stopping = true; }

 private:
  bool IsCoordinator() const { return options_.listener == nullptr; }

  class Stop final : public muster::Interrupt {
   public:
    absl::Status status() const override;
    std::atomic<bool> stopping = false;
  };

  void AddCertificate(v1::CertificateFacts& facts) const;
  void AddListener(const v1::ExaminationOrder& order, v1::DaemonReport& report);
  void AddRoot(const v1::ExaminationOrder& order, v1::DaemonReport& report);
  void CallRpcPort(const v1::ExaminationPeer& peer, v1::LinkFacts& link) const;

  const ExaminerOptions options_;
  // Absent: no TLS.
  std::optional<absl::StatusOr<CertificateEnds>> certificate_;
  CheckpointStorage& checkpoints_;
  const Clock& clock_;
  Stop stop_;
  std::unique_ptr<LinkListener> listener_;
  // The file that this process has written to the checkpoint root; empty: none.
  std::string root_file_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_EXAMINATION_EXAMINER_H_
