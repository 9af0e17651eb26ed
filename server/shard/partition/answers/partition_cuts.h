#ifndef MUSTER_SERVER_SHARD_PARTITION_ANSWERS_PARTITION_CUTS_H_
#define MUSTER_SERVER_SHARD_PARTITION_ANSWERS_PARTITION_CUTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "common/checkpoint/partition_file.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/checkpoint/cut_writer.h"
#include "server/shard/partition/answers/cut_history.h"
#include "server/shard/partition/answers/serve_context.h"
#include "server/shard/partition/journal/journal_writer.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
}  // namespace v1

// Takes a partition's cuts, one at a time: the first call that asks for a clock makes the view, the
// slots add what half-precision pushes have yet to carry over, and the view is written as a file
// while the partition goes on. Every slot that asked is answered. Not thread-safe.
class PartitionCuts {
 public:
  // Serves a call of another clock, once the file that the call had to wait for is written.
  using ServeLater = std::function<void(AdmittedCall call)>;

  // All must outlive it.
  PartitionCuts(const ServeContext& context, JournalWriter& log, std::unique_ptr<CutWriter> writer,
                ServeLater serve_later);

  // Answers a cut whose clock is reached, or keeps it until the file is written.
  void Serve(AdmittedCall& call);

  // Lets a view go that waits for what will not come: slots that had been answered before the
  // server was restarted have gone on.
  void GiveUpIncomplete();
  // Refuses all calls that are kept with the error that the partition is closed with. Needs no
  // memory.
  void RefuseAll();

  CutHistory& history() { return history_; }
  const CutHistory& history() const { return history_; }
  // Returns the bytes that were copied aside for the view.
  size_t memory_bytes() const { return writer_->memory_bytes(); }

 private:
  absl::Status CheckCanBeTaken(const v1::ExchangeRequest& request) const;
  // Takes the view that the call asks for. False: the call was answered, or waits for the view of
  // another clock; or the engine has crashed.
  bool TakeView(AdmittedCall& call);
  // Adds the loss scale that the slots share to the view, as every slot's.
  void AddGroupLossScale();
  // Adds what the call brings of its slot's own to the view.
  void AddSlotState(AdmittedCall& call);
  // Returns whether the view still waits for what some slots' half-precision pushes have to carry
  // over, or for their loss scales.
  bool LacksSlotState() const;
  // Lets the view go, if there is one, and those who wait for it to be whole. REQUIRES: it is not
  // being written.
  void DropIncomplete();
  void StartWriting(absl::optional<uint64_t> base);
  void Written(uint64_t clock, const absl::StatusOr<PartitionFileInfo>& file);

  void Refuse(AdmittedCall& call, const absl::Status& status) const;
  void AnswerWith(AdmittedCall& call, const CutHistory::Cut& cut) const;
  // Answers that there is no view of the call's clock any more.
  void AnswerGone(AdmittedCall& call) const;

  const ServeContext context_;
  JournalWriter& log_;
  const std::unique_ptr<CutWriter> writer_;
  const ServeLater serve_later_;
  CutHistory history_;
  // The last cut whose file could not be written, and why.
  std::optional<uint64_t> failed_clock_;
  std::string failure_;
  // Calls that wait for the state of other slots; for the file being written; and those of another
  // clock, for its end.
  std::vector<AdmittedCall> takes_;
  std::vector<AdmittedCall> writes_;
  std::vector<AdmittedCall> deferred_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ANSWERS_PARTITION_CUTS_H_
