#include "worker/strategy/group/exchange/cut_exchange.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/write_failure.h"
#include "proto/task_service.pb.h"
#include "worker/strategy/group/exchange/array_calls.h"

namespace muster {
namespace {

// A byte with the status' code, then its message or a CommitCheckpointRequest with the files.
std::string Encode(const absl::StatusOr<std::vector<PartitionFile>>& files) {
  std::string bytes(1, static_cast<char>(files.status().code()));
  if (!files.ok()) return absl::StrCat(bytes, files.status().message());
  v1::CommitCheckpointRequest encoded;
  for (const PartitionFile& written : *files) {
    v1::CutFile* file = encoded.add_files();
    file->set_partition(written.partition);
    file->set_path(written.path);
    file->set_bytes(written.bytes);
    file->set_checksum(written.checksum);
  }
  encoded.AppendToString(&bytes);
  return bytes;
}

absl::Status Decode(absl::string_view bytes, int rank, std::vector<PartitionFile>& files) {
  v1::CommitCheckpointRequest encoded;
  const absl::StatusCode code =
      bytes.empty() ? absl::StatusCode::kInternal : static_cast<absl::StatusCode>(bytes[0]);
  if (code != absl::StatusCode::kOk) {
    return absl::Status(code, absl::StrCat("rank ", rank, " could not write its part of a cut: ",
                                           bytes.empty() ? bytes : bytes.substr(1)));
  }
  if (!encoded.ParseFromArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1))) {
    return absl::InternalError(
        absl::StrCat("what rank ", rank, " told of its part of a cut cannot be read"));
  }
  for (const v1::CutFile& file : encoded.files()) {
    files.push_back({file.partition(), file.path(), file.bytes(), file.checksum()});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CutFiles> ExchangeCut(Communicator& communicator, absl::Duration timeout,
                                     const absl::StatusOr<std::vector<PartitionFile>>& mine) {
  const std::string bytes = Encode(mine);
  const int64_t length = static_cast<int64_t>(bytes.size());
  std::vector<int64_t> lengths(communicator.size());
  MUSTER_RETURN_IF_ERROR(communicator.Run(
      AllGather(absl::MakeConstSpan(&length, 1), lengths.data(), timeout, "lengths of cuts")));

  const std::vector<size_t> counts(lengths.begin(), lengths.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), size_t{0}), '\0');
  CollectiveCall gather =
      AllGather(absl::MakeConstSpan(bytes), all.data(), timeout, "files of cuts");
  gather.counts = counts;
  MUSTER_RETURN_IF_ERROR(communicator.Run(gather));

  CutFiles files;
  absl::string_view rest = all;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const absl::Status status = Decode(rest.substr(0, counts[rank]), rank, files.by_partition);
    if (MayBeWrittenLater(status)) {
      return CutFiles{.by_partition = {}, .failure = std::string(status.message())};
    }
    MUSTER_RETURN_IF_ERROR(status);
    rest.remove_prefix(counts[rank]);
  }
  std::sort(
      files.by_partition.begin(), files.by_partition.end(),
      [](const PartitionFile& a, const PartitionFile& b) { return a.partition < b.partition; });
  return files;
}

}  // namespace muster
