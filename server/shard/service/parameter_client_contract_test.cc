// What every ParameterClient promises, whichever way it reaches the server. What holds only where
// there is a wire is in parameter_client_wire_test.cc.

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "server/shard/service/parameter_client_for_testing.h"

namespace muster {
namespace {

TEST_P(ParameterClientTest, PushesAddAndPullsReturn) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kFloats, 1.5f))->Take(kTimeout).ok());
  }
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 4.5f));
}

TEST_P(ParameterClientTest, PayloadsOfAllSizesArriveWhole) {
  for (const size_t floats : {size_t{1}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{16384},
                              size_t{70001}, size_t{600000}, size_t{3} << 20}) {
    Serve(floats, {});
    std::vector<float> values(floats);
    for (size_t i = 0; i < floats; ++i) values[i] = i % 1000;
    const Payload payload = Floats(values);
    std::vector<std::shared_ptr<Pending<ExchangeResult>>> pushes;
    for (int i = 0; i < 4; ++i) pushes.push_back(StartExchange(*client_, Push(), payload));
    for (auto& push : pushes) EXPECT_TRUE(push->Take(kTimeout).ok());
    for (float& value : values) value *= 4;
    EXPECT_TRUE(Pulled(*client_) == values) << floats;
  }
}

TEST_P(ParameterClientTest, PayloadsInOddSpansArriveWhole) {
  constexpr size_t kLarge = 700'001;
  Serve(kLarge, {});
  std::vector<float> values(kLarge);
  for (size_t i = 0; i < kLarge; ++i) values[i] = i % 777;
  const Payload whole = Payload::Of(values);
  std::vector<Payload::Span> spans;
  const auto bytes = whole.spans()[0];
  for (size_t at = 0, step = 1; at < bytes.size(); at += step, step = step * 2 + 1) {
    spans.push_back(bytes.subspan(at, step));
  }
  EXPECT_TRUE(StartExchange(*client_, Push(), Payload(spans, whole.owner()))->Take(kTimeout).ok());
  EXPECT_TRUE(Pulled(*client_) == values);
}

// As rows are pushed.
TEST_P(ParameterClientTest, PayloadsInManyShortSpansArriveWhole) {
  constexpr size_t kLarge = 700'001;
  constexpr size_t kSpanBytes = 252;
  Serve(kLarge, {});
  std::vector<float> values(kLarge);
  for (size_t i = 0; i < kLarge; ++i) values[i] = i % 777;
  const Payload whole = Payload::Of(values);
  std::vector<Payload::Span> spans;
  const auto bytes = whole.spans()[0];
  for (size_t at = 0; at < bytes.size(); at += kSpanBytes) {
    spans.push_back(bytes.subspan(at, kSpanBytes));
  }
  EXPECT_TRUE(StartExchange(*client_, Push(), Payload(spans, whole.owner()))->Take(kTimeout).ok());
  EXPECT_TRUE(Pulled(*client_) == values);
}

TEST_P(ParameterClientTest, AnswersLandWhereTheCallerWantsThem) {
  // Large enough to come in several spans.
  Serve(300'000, {});
  ASSERT_TRUE(StartExchange(*client_, Push(), Floats(300'000, 2.5f))->Take(kTimeout).ok());
  const absl::Span<std::byte> place = Place(300'002 * sizeof(float));
  const absl::Span<float> arena(reinterpret_cast<float*>(place.data()), 300'002);
  std::fill(arena.begin(), arena.end(), -1.0f);
  const absl::Span<std::byte> landing = place.subspan(4, 300'000 * sizeof(float));
  const auto pull_into = [this](absl::Span<std::byte> place) {
    const auto pending = std::make_shared<Pending<ExchangeResult>>();
    client_->CallInto(Pull(), {}, place, [pending](absl::StatusOr<ExchangeResult> result) {
      pending->Finish(std::move(result));
    });
    return pending->Take(kTimeout);
  };
  const absl::StatusOr<ExchangeResult> landed = pull_into(landing);
  ASSERT_TRUE(landed.ok()) << landed.status();
  ASSERT_EQ(landed->payload.spans().size(), 1u);
  EXPECT_EQ(landed->payload.spans()[0].data(), landing.data());
  EXPECT_EQ(landed->reply->landed(), GetParam() == Way::kRegistered);
  EXPECT_EQ(std::count(arena.begin(), arena.end(), 2.5f), 300'000);
  EXPECT_EQ(arena.front(), -1.0f);
  EXPECT_EQ(arena.back(), -1.0f);

  // Of another length it is the caller's to look at.
  std::fill(arena.begin(), arena.end(), -1.0f);
  const absl::StatusOr<ExchangeResult> other = pull_into(landing.subspan(4));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->payload.size(), landing.size());
  EXPECT_EQ(std::count(arena.begin(), arena.end(), -1.0f), 300'002);
}

// The server itself writes to registered memory: not when nobody waits for it there any more.
TEST_P(ParameterClientTest, NothingLandsAfterTheCallHasEnded) {
  const absl::Span<std::byte> landing = Place(kFloats * sizeof(float));
  std::fill(landing.begin(), landing.end(), std::byte{7});
  const auto pending = std::make_shared<Pending<ExchangeResult>>();
  client_->CallInto(Pull(1), {}, landing, [pending](absl::StatusOr<ExchangeResult> result) {
    pending->Finish(std::move(result));
  });
  Await([&] { return host_->parked() == 1; });
  client_->Abort(absl::AbortedError("fenced"));
  EXPECT_EQ(pending->Wait(kTimeout), absl::AbortedError("fenced"));
  host_->AnswerParked();
  EXPECT_EQ(std::count(landing.begin(), landing.end(), std::byte{7}), landing.size());
}

TEST_P(ParameterClientTest, WhatIsAnsweredWhileNobodyWaitsComesOnceSomebodyDoes) {
  for (int round = 0; round < 20; ++round) {
    client_->SetWaiting(false);
    std::vector<std::shared_ptr<Pending<ExchangeResult>>> calls;
    for (int i = 0; i < 10; ++i) {
      calls.push_back(StartExchange(*client_, Push(), Floats(kFloats, 1)));
      calls.push_back(StartExchange(*client_, Pull()));
    }
    Await([&] { return host_->executed() == static_cast<size_t>(20 * (round + 1)); });
    client_->SetWaiting(true);
    for (const auto& call : calls) EXPECT_TRUE(call->Take(kTimeout).ok());
  }
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 200));
}

TEST_P(ParameterClientTest, ARegisteredPayloadIsReadWhereItLies) {
  if (registered_ == nullptr) GTEST_SKIP() << "this way copies payloads";
  host_->Hold();
  const absl::Span<std::byte> place = Place(kFloats * sizeof(float));
  const auto push = StartExchange(*client_, Push(), Payload({place}, registered_));
  Await([&] { return host_->executed() == 1; });
  const absl::Span<float> values(reinterpret_cast<float*>(place.data()), kFloats);
  std::fill(values.begin(), values.end(), 2.0f);
  host_->Release();
  EXPECT_TRUE(push->Take(kTimeout).ok());
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 2));
}

TEST_P(ParameterClientTest, HostErrorsReachTheCaller) {
  const auto result = StartExchange(*client_, Push(), Floats(3, 1))->Take(kTimeout);
  EXPECT_EQ(result.status(), absl::InvalidArgumentError("payload has 12 bytes, expected 4000"));
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kFloats, 1))->Take(kTimeout).ok());
}

TEST_P(ParameterClientTest, UnaryCallsReachTheHost) {
  v1::OpenTablesRequest request;
  request.set_job_id("job-1");
  request.add_partitions()->set_partition(6);
  const auto opened = client_->OpenTables(request, kTimeout);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->partitions(0).partition(), 6u);
  EXPECT_EQ(client_->OpenTables({}, kTimeout).status().code(), absl::StatusCode::kInvalidArgument);
  v1::EndGenerationRequest end;
  end.set_job_id("job-1");
  end.set_next_generation(3);
  end.add_partitions()->set_partition(6);
  const absl::StatusOr<v1::EndGenerationReply> ended = client_->EndGeneration(end, kTimeout);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->partitions(0).partition(), 6u);
  EXPECT_EQ(ended->partitions(0).closed(0), 3u);
  EXPECT_EQ(client_->EndGeneration({}, kTimeout).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(client_->DropTables("job-1", kTimeout).ok());
  EXPECT_EQ(client_->Stats(kTimeout)->bytes_pushed(), 0u);
}

TEST_P(ParameterClientTest, ParkedCallsLetOthersPassAndAreAnsweredLater) {
  auto parked = StartExchange(*client_, Pull(1));
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kFloats, 2))->Take(kTimeout).ok());
  EXPECT_EQ(parked->Wait(absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
  Await([&] { return host_->parked() == 1; });
  host_->AnswerParked();
  EXPECT_TRUE(parked->Take(kTimeout).ok());
}

TEST_P(ParameterClientTest, ParkedCallsAreCancelledWithTheirClient) {
  auto parked = StartExchange(*client_, Pull(1));
  Await([&] { return host_->parked() == 1; });
  EXPECT_FALSE(host_->parked_cancelled(0));
  client_.reset();
  EXPECT_EQ(parked->Wait(absl::ZeroDuration()).code(), absl::StatusCode::kCancelled);
  Await([&] { return host_->parked_cancelled(0); });
  // An answer that comes too late goes nowhere.
  host_->AnswerParked();
}

TEST_P(ParameterClientTest, AbortEndsAllCallsWithItsReason) {
  auto parked = StartExchange(*client_, Pull(1));
  Await([&] { return host_->parked() == 1; });
  client_->Abort(absl::AbortedError("generation 3 replaces 2"));
  EXPECT_EQ(parked->Wait(kTimeout), absl::AbortedError("generation 3 replaces 2"));
  EXPECT_EQ(StartExchange(*client_, Pull())->Wait(kTimeout),
            absl::AbortedError("generation 3 replaces 2"));
  Await([&] { return host_->parked_cancelled(0); });
}

TEST_P(ParameterClientTest, AbortBeforeTheFirstCallHolds) {
  client_->Abort(absl::AbortedError("fenced"));
  EXPECT_EQ(StartExchange(*client_, Pull())->Wait(kTimeout), absl::AbortedError("fenced"));
}

TEST_P(ParameterClientTest, CallsFromDoneWork) {
  absl::Notification answered;
  client_->Call(Push(), Floats(kFloats, 1), [&](absl::StatusOr<ExchangeResult> first) {
    EXPECT_TRUE(first.ok()) << first.status();
    client_->Call(Push(), Floats(kFloats, 1), [&](absl::StatusOr<ExchangeResult> second) {
      EXPECT_TRUE(second.ok()) << second.status();
      answered.Notify();
    });
  });
  answered.WaitForNotification();
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 2));
}

TEST_P(ParameterClientTest, ResultsOutliveTheirClientAndServer) {
  Serve(100'000, {});
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(100'000, 3))->Take(kTimeout).ok());
  std::vector<ExchangeResult> results;
  for (int i = 0; i < 20; ++i) {
    auto result = StartExchange(*client_, Pull())->Take(kTimeout);
    ASSERT_TRUE(result.ok()) << result.status();
    results.push_back(*std::move(result));
  }
  Stop();
  host_.reset();
  for (const ExchangeResult& result : results) {
    std::vector<float> values(result.payload.size() / sizeof(float));
    result.payload.CopyTo(values.data());
    EXPECT_TRUE(values == std::vector<float>(100'000, 3));
  }
}

TEST_P(ParameterClientTest, ManyThreadsAllGetTheirAnswers) {
  constexpr int kThreads = 4, kCalls = 200;
  std::atomic<int> answered{0};
  absl::BlockingCounter pending(kThreads * kCalls);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCalls; ++i) {
        v1::ExchangeRequest request = i % 3 == 0 ? Pull() : Push();
        request.set_partition(thread);
        client_->Call(request, i % 3 == 0 ? Payload() : Floats(kFloats, 1),
                      [&](absl::StatusOr<ExchangeResult> result) {
                        answered += result.ok();
                        pending.DecrementCount();
                      });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pending.Wait();
  EXPECT_EQ(answered, kThreads * kCalls);
  const float pushes = kThreads * (kCalls - (kCalls + 2) / 3);
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, pushes));
}

INSTANTIATE_TEST_SUITE_P(Ways, ParameterClientTest,
                         ::testing::Values(Way::kInProcess, Way::kGrpc, Way::kTcp, Way::kTls,
                                           Way::kSharedMemory, Way::kRegistered),
                         WayName);

}  // namespace
}  // namespace muster
