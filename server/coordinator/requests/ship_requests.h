#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_SHIP_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_SHIP_REQUESTS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/program/shipped_archives.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/requests/coordinator_options.h"

namespace muster {

// A folder that is being sent. Its disk work runs on the executor `disk`, one part after the other;
// whoever sends calls one method at a time, from any thread. Destruction before Complete has
// answered leaves nothing.
class FolderUpload {
 public:
  FolderUpload(SerialExecutor& disk, std::unique_ptr<ShippedArchiveWriter> writer);
  ~FolderUpload();

  FolderUpload(const FolderUpload&) = delete;
  FolderUpload& operator=(const FolderUpload&) = delete;

  // Each calls `done` on the disk thread, with ShippedArchiveWriter's errors.
  void Append(std::string bytes, std::function<void(absl::Status)> done);
  void Complete(std::function<void(absl::Status)> done);

 private:
  SerialExecutor& disk_;
  std::shared_ptr<ShippedArchiveWriter> writer_;
};

// JobService's calls about shipped folders, without gRPC, and the removal of those that no job
// names. Whether a folder is there is the disk's to say; this class knows for how long it stays.
//
// A folder stays for an hour after somebody asked for it or sent it, so that a job can be submitted
// with it, and as long as there is a job that names it, also one that has ended. After that it is
// removed within a second, by the same executor that looks for folders and begins them: so
// whoever is told that a folder is there finds it. After a restart, folders without a job have an
// hour again. Logic thread only.
class ShipRequests {
 public:
  // All references outlive it, and `disk` and `logic` run all that it posted before it is
  // destroyed.
  ShipRequests(const JobTable& jobs, ShippedArchives& archives, SerialExecutor& logic,
               SerialExecutor& disk, const Clock& clock, const CoordinatorOptions& options);

  // Asks the disk which folders are there. Call once, first.
  void Load();

  void Find(const v1::ShippedFolder& folder, Call<v1::FindShippedFolderReply> call);

  // Begins to take a folder. The reply is null if the coordinator has it.
  void Begin(const v1::ShippedFolder& folder, Call<std::shared_ptr<FolderUpload>> call);

  // Checks that a submitted job may name its folder. NotFound: that is being removed.
  absl::Status CheckStays(const v1::JobSpec& spec) const;
  // Checks that the folder that a job names is there; blocks. Any thread. NotFound: it is not.
  absl::Status CheckThere(const v1::JobSpec& spec) const;
  // Takes note that a job was stored: its folder stays with it from here on.
  void Claim(const v1::JobSpec& spec);

  // Removes the folders that have stayed for long enough.
  void Sweep();

 private:
  // Checks that whoever sends the request may have programs run, and the folder's name and size.
  absl::Status Check(const v1::ShippedFolder& folder) const;
  void Hold(const std::string& name);
  void Remove(const std::string& name);
  absl::Status NotThere(absl::string_view name) const;

  const JobTable& jobs_;
  ShippedArchives& archives_;
  SerialExecutor& logic_;
  SerialExecutor& disk_;
  const Clock& clock_;
  const CoordinatorOptions& options_;
  // Folders that may be there, with the times until which they stay without a job.
  std::map<std::string, absl::Duration, std::less<>> stay_until_;
  // Folders whose removal waits for the disk.
  std::set<std::string, std::less<>> in_removal_;
  // Uploads under way, and the number of those that wait for the disk to begin.
  std::vector<std::weak_ptr<FolderUpload>> uploads_;
  size_t beginning_ = 0;
  absl::Duration next_sweep_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_SHIP_REQUESTS_H_
