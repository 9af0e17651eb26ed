#include "worker/c_abi/muster_native.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/base/work.h"
#include "common/tensor/dtype.h"
#include "worker/c_abi/answer.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/endpoint.h"
#include "worker/collectives/flight_recorder.h"

struct muster_endpoint {
  std::unique_ptr<muster::CollectiveEndpoint> endpoint;
  std::string address;
};

struct muster_group {
  // The communicator takes calls from one thread at a time, the caller starts them on any.
  absl::Mutex mutex;
  std::unique_ptr<muster::Communicator> communicator;
};

struct muster_work {
  std::shared_ptr<muster::Work> work;
  std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
  // Of a receive: the rank that has sent.
  std::shared_ptr<int> source = std::make_shared<int>(-1);
};

namespace {

// Returns the value of an enum by its number, which has to be one up to `last`.
template <typename Enum>
absl::Status Read(const char* name, int32_t number, Enum last, Enum& value) {
  if (number < 0 || number > static_cast<int32_t>(last)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", number, "; expected 0 to ", static_cast<int32_t>(last)));
  }
  value = static_cast<Enum>(number);
  return absl::OkStatus();
}

absl::StatusOr<muster::CollectiveCall> CallOf(const muster_call& call, int ranks) {
  muster::CollectiveCall made;
  absl::Status status = Read("kind", call.kind, muster::Collective::kBarrier, made.kind);
  status.Update(Read("dtype", call.dtype, muster::DType::kUint8, made.dtype));
  status.Update(Read("reduction", call.reduction, muster::Reduction::kBitXor, made.reduction));
  if (!status.ok()) return status;
  const auto counts = [ranks](const size_t* each) {
    return each == nullptr ? absl::Span<const size_t>()
                           : absl::MakeConstSpan(each, static_cast<size_t>(ranks));
  };
  made.in = call.in;
  made.out = call.out;
  made.count = call.count;
  made.counts = counts(call.counts);
  made.send_counts = counts(call.send_counts);
  made.root = call.root;
  made.tag = call.tag;
  made.timeout = absl::Seconds(call.timeout_seconds);
  return made;
}

}  // namespace

int muster_abi_version() { return MUSTER_ABI_VERSION; }

const char* muster_error() { return muster::last_error.c_str(); }

int muster_endpoint_make(const muster_endpoint_options* options, muster_endpoint** endpoint) {
  return muster::Answer([&]() -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(auto made,
                            muster::MakeHostEndpoint({.host = options->host,
                                                      .first_port = options->first_port,
                                                      .last_port = options->last_port,
                                                      .advertised_host = options->advertised_host,
                                                      .shared_memory = options->shared_memory != 0,
                                                      .tls = options->tls != 0,
                                                      .connections = options->connections}));
    std::string address = made->address();
    *endpoint = new muster_endpoint{std::move(made), std::move(address)};
    return absl::OkStatus();
  });
}

const char* muster_endpoint_address(const muster_endpoint* endpoint, size_t* size) {
  *size = endpoint->address.size();
  return endpoint->address.data();
}

void muster_endpoint_free(muster_endpoint* endpoint) { delete endpoint; }

int muster_connect(muster_endpoint* endpoint, const muster_meeting* meeting, muster_group** group) {
  return muster::Answer([&]() -> absl::Status {
    MUSTER_RETURN_IF_ERROR(muster::CheckNumber("rank", meeting->rank, meeting->size));
    muster::CollectiveEndpoint::Group made;
    made.name = meeting->name;
    made.round = meeting->round;
    made.secret.assign(meeting->secret, meeting->secret_size);
    for (int32_t i = 0; i < meeting->size; ++i) {
      made.addresses.emplace_back(meeting->addresses[i], meeting->address_sizes[i]);
    }
    made.rank = meeting->rank;
    auto connected = std::make_unique<muster_group>();
    MUSTER_ASSIGN_OR_RETURN(
        connected->communicator,
        endpoint->endpoint->Connect(made, absl::Seconds(meeting->timeout_seconds)));
    *group = connected.release();
    return absl::OkStatus();
  });
}

int muster_start(muster_group* group, const muster_call* call, muster_work** work) {
  return muster::Answer([&]() -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(muster::CollectiveCall made,
                            CallOf(*call, group->communicator->size()));
    auto started = std::make_unique<muster_work>();
    made.source = started->source.get();
    {
      absl::MutexLock lock(&group->mutex);
      started->work = group->communicator->Start(made);
    }
    // Keeps `source` until the work has ended.
    started->work->OnDone(
        [ended = started->ended, source = started->source](const absl::Status&) { *ended = true; });
    *work = started.release();
    return absl::OkStatus();
  });
}

int muster_wait(muster_work* work) {
  return muster::Answer([&] {
    // The call has a limit of its own.
    const absl::Status status = work->work->Wait(absl::InfiniteDuration());
    // Whoever waits may be told before the function of OnDone is called.
    *work->ended = true;
    return status;
  });
}

int muster_ended(const muster_work* work) { return *work->ended ? 1 : 0; }

int muster_source(const muster_work* work) { return *work->source; }

void muster_work_free(muster_work* work) { delete work; }

void muster_recorded_calls(const muster_group* group,
                           void (*take)(void* context, const muster_recorded_call* call),
                           void* context) {
  for (const muster::RecordedCall& call : group->communicator->recorder().Calls()) {
    const bool has_ended = call.duration != absl::InfiniteDuration();
    const std::string error = call.status.ok() ? "" : call.status.ToString();
    const muster_recorded_call recorded = {
        .sequence = call.sequence,
        .operation = muster::Name(call.kind),
        .dtype = muster::Name(call.dtype),
        .reduction = muster::Name(call.reduction),
        .count = call.count,
        .started_unix_us = absl::ToUnixMicros(call.started),
        .duration_us = has_ended ? absl::ToInt64Microseconds(call.duration) : -1,
        .error = error.c_str()};
    take(context, &recorded);
  }
}

void muster_abort(muster_group* group, const char* reason) { group->communicator->Abort(reason); }

void muster_group_free(muster_group* group) { delete group; }
