#ifndef MUSTER_SERVER_SHARD_PARTITION_ANSWERS_READ_SERVER_H_
#define MUSTER_SERVER_SHARD_PARTITION_ANSWERS_READ_SERVER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/payload.h"
#include "common/tensor/dtype.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/answers/serve_context.h"
#include "server/shard/partition/apply/mutation_applier.h"
#include "server/shard/resources/served_bytes.h"
#include "server/shard/tables/dense_table.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
}  // namespace v1

// Answers pulls, entries and requests for norms whose clock is reached. Owns nothing. Not
// thread-safe.
class ReadServer {
 public:
  // `served` may be null: nobody counts what is pulled. All must outlive it.
  ReadServer(const ServeContext& context, MutationApplier& applier, ServedBytes* served)
      : context_(context), applier_(applier), served_(served) {}

  // Answers the call; RESOURCE_EXHAUSTED when memory for the values runs out, which concerns the
  // call alone.
  void Serve(AdmittedCall& call);

 private:
  void ServeDensePull(AdmittedCall& call);
  void ServeSparsePull(AdmittedCall& call);
  void ServeEntry(AdmittedCall& call);
  void ServeClipNorms(AdmittedCall& call);
  // Returns which version of the tables a pull reads.
  absl::StatusOr<DenseTable::Version> VersionFor(const v1::ExchangeRequest& request) const;
  // Returns memory to make an answer in; the memory that it is sent from, if there is room.
  std::shared_ptr<std::byte> AnswerMemory(const ExchangeCall& call, size_t bytes) const;
  // Returns values as they are sent. RESOURCE_EXHAUSTED: there is no memory to bring them into that
  // type.
  absl::StatusOr<Payload> Narrow(const ExchangeCall& call, const Payload& payload,
                                 DType type) const;

  const ServeContext context_;
  MutationApplier& applier_;
  ServedBytes* const served_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ANSWERS_READ_SERVER_H_
