#include "client/trace/chrome_trace.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::TraceChunk FirstOf(bool on_device = false) {
  v1::TraceChunk chunk;
  chunk.mutable_order()->set_trace(1);
  chunk.mutable_order()->set_job_id("job-1");
  chunk.mutable_order()->set_first_step(5);
  chunk.mutable_order()->set_end_step(7);
  chunk.set_begin_ns(1'000'000);
  chunk.set_on_device(on_device);
  return chunk;
}

struct TestEvent {
  std::string name;
  std::string track;
  uint64_t start_ns = 0;
  uint64_t duration_ns = 0;
};

v1::TraceChunk PieceOf(const v1::TraceProcess& source, const std::vector<TestEvent>& events) {
  v1::TraceChunk chunk;
  *chunk.mutable_source() = source;
  v1::TracePiece& piece = *chunk.mutable_piece();
  piece.set_number(1);
  piece.set_begin_ns(500'000);
  piece.set_clock_offset_ns(600'000);
  piece.set_clock_error_ns(2'500);
  for (const TestEvent& event : events) {
    v1::TraceEvent& added = *piece.add_events();
    added.set_name(piece.names_size());
    added.set_track(piece.tracks_size());
    added.set_start_ns(event.start_ns);
    added.set_duration_ns(event.duration_ns);
    added.set_step(5);
    piece.add_names()->set_name(event.name);
    piece.mutable_names()->rbegin()->set_category("compute");
    piece.add_tracks()->set_name(event.track);
    piece.mutable_tracks()->rbegin()->set_overlapping(event.track == "requests");
  }
  return chunk;
}

v1::TraceProcess SlotOf(uint32_t slot, uint64_t incarnation = 1) {
  v1::TraceProcess process;
  process.set_slot(slot);
  process.set_incarnation(incarnation);
  process.set_worker_id("w0");
  return process;
}

nlohmann::json JsonOf(const ChromeTrace& trace) {
  std::string text;
  EXPECT_EQ(trace.Write([&](absl::string_view part) {
    absl::StrAppend(&text, part);
    return absl::OkStatus();
  }),
            absl::OkStatus());
  return nlohmann::json::parse(text);
}

// Returns lines `NAME at START for DURATION on PROCESS, THREAD`.
std::vector<std::string> LinesOf(const nlohmann::json& json) {
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  for (const auto& event : json["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") {
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    }
  }
  std::vector<std::string> lines;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] != "X") continue;
    lines.push_back(event["name"].get<std::string>() + " at " + event["ts"].dump() + " for " +
                    event["dur"].dump() + " on " + processes[event["pid"]] + ", " +
                    threads[{event["pid"], event["tid"]}]);
  }
  return lines;
}

TEST(ChromeTraceTest, PutsAllProcessesOnOneClock) {
  ChromeTrace trace;
  ASSERT_EQ(trace.Add(FirstOf()), absl::OkStatus());
  ASSERT_EQ(trace.Add(PieceOf(SlotOf(0), {{"forward 1", "trainer", 1'500, 500},
                                          {"step", "trainer", 1'000, 2'000}})),
            absl::OkStatus());
  v1::TraceProcess server;
  server.set_server_id("s0");
  v1::TraceChunk late = PieceOf(server, {{"take push", "partition 3", 0, 10}});
  late.mutable_piece()->set_clock_offset_ns(-100'000);
  late.mutable_piece()->set_dropped(7);
  ASSERT_EQ(trace.Add(late), absl::OkStatus());
  v1::TraceChunk last;
  *last.add_missing() = SlotOf(1);
  last.set_ended_because("the time of 5s was up");
  ASSERT_EQ(trace.Add(last), absl::OkStatus());

  const nlohmann::json json = JsonOf(trace);
  // 500,000 + 1,500 + 600,000 - 1,000,000 ns; outer events first.
  EXPECT_THAT(LinesOf(json), ElementsAre("step at 101.0 for 2.0 on slot 0 (w0), trainer",
                                         "forward 1 at 101.5 for 0.5 on slot 0 (w0), trainer",
                                         "take push at -600.0 for 0.01 on server s0, partition 3"));
  const nlohmann::json& data = json["otherData"];
  EXPECT_EQ(data["job"], "job-1");
  EXPECT_EQ(data["first_step"], 5);
  EXPECT_EQ(data["clock_error_us"]["slot 0 (w0)"], 2.5);
  EXPECT_EQ(data["events_left_out"]["server s0"], 7);
  EXPECT_EQ(data["missing"][0], "slot 1 (w0)");
  EXPECT_EQ(data["ended_because"], "the time of 5s was up");
  EXPECT_EQ(trace.events(), 3u);
  EXPECT_EQ(trace.dropped(), 7u);
  EXPECT_EQ(trace.clock_error_ns(), 2'500u);
  EXPECT_TRUE(trace.uncompared().empty());
}

TEST(ChromeTraceTest, DividesEventsThatOverlapAmongThreads) {
  EXPECT_THAT(DivideIntoLanes({{0, 10}, {0, 5}, {4, 8}, {5, 6}, {10, 12}, {10, 11}}),
              ElementsAre(0, 1, 2, 1, 0, 1));
  EXPECT_TRUE(DivideIntoLanes({}).empty());
  ChromeTrace trace;
  ASSERT_EQ(trace.Add(FirstOf()), absl::OkStatus());
  ASSERT_EQ(trace.Add(PieceOf(SlotOf(0), {{"pull 0", "requests", 0, 3'000},
                                          {"pull 1", "requests", 1'000, 1'000},
                                          {"pull 2", "requests", 3'000, 1'000},
                                          {"step", "trainer", 0, 9'000}})),
            absl::OkStatus());
  EXPECT_THAT(LinesOf(JsonOf(trace)),
              ElementsAre("step at 100.0 for 9.0 on slot 0 (w0), trainer",
                          "pull 0 at 100.0 for 3.0 on slot 0 (w0), requests",
                          "pull 1 at 101.0 for 1.0 on slot 0 (w0), requests 2",
                          "pull 2 at 103.0 for 1.0 on slot 0 (w0), requests"));
}

TEST(ChromeTraceTest, TasksOfOneSlotAreProcessesOfTheirOwn) {
  ChromeTrace trace;
  ASSERT_EQ(trace.Add(FirstOf()), absl::OkStatus());
  ASSERT_EQ(trace.Add(PieceOf(SlotOf(0, 2), {{"step", "trainer", 0, 1}})), absl::OkStatus());
  ASSERT_EQ(trace.Add(PieceOf(SlotOf(0, 1), {{"step", "trainer", 0, 1}})), absl::OkStatus());
  ASSERT_EQ(trace.Add(PieceOf(SlotOf(0, 1), {{"step", "trainer", 9, 1}})), absl::OkStatus());
  EXPECT_EQ(NameOf(SlotOf(0, 2)), "slot 0 (w0), incarnation 2");
  std::map<int, int> events;
  const nlohmann::json json = JsonOf(trace);
  for (const auto& event : json["traceEvents"]) events[event["pid"]] += event["ph"] == "X";
  EXPECT_EQ(events, (std::map<int, int>{{1, 2}, {2, 1}}));
}

TEST(ChromeTraceTest, SaysWhatAHostOnlyQueued) {
  ChromeTrace trace;
  ASSERT_EQ(trace.Add(FirstOf(true)), absl::OkStatus());
  ASSERT_EQ(trace.Add(PieceOf(SlotOf(0), {{"forward 1", "trainer", 0, 1}})), absl::OkStatus());
  const nlohmann::json json = JsonOf(trace);
  EXPECT_THAT(LinesOf(json)[0], HasSubstr("forward 1 (queued)"));
  EXPECT_TRUE(json["otherData"].contains("queued"));
}

TEST(ChromeTraceTest, NamesCannotBreakTheFile) {
  ChromeTrace trace;
  ASSERT_EQ(trace.Add(FirstOf()), absl::OkStatus());
  v1::TraceProcess server;
  server.set_server_id("s\"0\n");
  ASSERT_EQ(trace.Add(PieceOf(server, {{"a\"}]", "t\\", 0, 1}})), absl::OkStatus());
  EXPECT_THAT(LinesOf(JsonOf(trace)),
              ElementsAre("a\"}] at 100.0 for 0.001 on server s\"0\n, t\\"));
}

TEST(ChromeTraceTest, RefusesEventsWithoutNames) {
  ChromeTrace trace;
  v1::TraceChunk chunk = PieceOf(SlotOf(0), {{"step", "trainer", 0, 1}});
  chunk.mutable_piece()->mutable_events(0)->set_track(1);
  EXPECT_EQ(trace.Add(chunk).code(), absl::StatusCode::kDataLoss);
}

TEST(ChromeTraceTest, EndsWithTheFirstErrorOfWriting) {
  ChromeTrace trace;
  EXPECT_EQ(trace.Write([](absl::string_view) { return absl::ResourceExhaustedError("full"); }),
            absl::ResourceExhaustedError("full"));
}

TEST(ChromeTraceTest, NamesProcessesWhoseClocksWereNotCompared) {
  ChromeTrace trace;
  v1::TraceChunk chunk = PieceOf(SlotOf(3), {{"step", "trainer", 0, 1}});
  chunk.mutable_piece()->set_clock_error_ns(0);
  ASSERT_EQ(trace.Add(chunk), absl::OkStatus());
  EXPECT_THAT(trace.uncompared(), ElementsAre("slot 3 (w0)"));
}

}  // namespace
}  // namespace muster
