#include "server/coordinator/job/request_limits.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <string>

#include "common/eval/confusion.h"
#include "proto/cluster_service.pb.h"
#include "proto/examination.pb.h"
#include "proto/job_service.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/job/evaluation_gatherer.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;
using ::testing::HasSubstr;

TEST(RequestLimitsTest, NamesFieldSizeAndLimit) {
  v1::SubmitJobRequest request;
  request.mutable_spec()->set_name(std::string(256, 'n'));
  EXPECT_EQ(CheckLimits(request), absl::OkStatus());
  request.mutable_spec()->mutable_name()->push_back('n');
  const absl::Status name = CheckLimits(request);
  EXPECT_EQ(name.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(name.message()), HasSubstr("spec.name has 257 bytes; the limit is 256"));

  (*request.mutable_spec()->mutable_labels())["team"] = std::string(257, 'v');
  request.mutable_spec()->clear_name();
  EXPECT_THAT(std::string(CheckLimits(request).message()),
              HasSubstr("spec.labels[0].value has 257 bytes; the limit is 256"));
  request.mutable_spec()->clear_labels();
  for (int i = 0; i < 33; ++i) {
    (*request.mutable_spec()->mutable_labels())[std::to_string(i)] = "";
  }
  EXPECT_THAT(std::string(CheckLimits(request).message()),
              HasSubstr("spec.labels has 33 elements; the limit is 32"));

  v1::HeartbeatRequest heartbeat;
  heartbeat.add_tasks();
  heartbeat.add_tasks()->set_job_id(std::string(257, 'j'));
  EXPECT_THAT(std::string(CheckLimits(heartbeat).message()), HasSubstr("tasks[1].job_id has 257"));
}

TEST(RequestLimitsTest, ListsAreBoundedAndSoIsEachOfTheirElements) {
  v1::SubmitJobRequest request;
  v1::CsvData& csv = *request.mutable_spec()->mutable_data()->mutable_csv();
  csv.add_categorical(std::string(4097, 'c'));
  EXPECT_THAT(std::string(CheckLimits(request).message()),
              HasSubstr("spec.data.csv.categorical[0] has 4097 bytes"));
  csv.set_categorical(0, "c");
  for (int i = 1; i < 4097; ++i) csv.add_categorical("c");
  EXPECT_THAT(std::string(CheckLimits(request).message()),
              HasSubstr("spec.data.csv.categorical has 4097 elements; the limit is 4096"));
}

TEST(RequestLimitsTest, WhatTheRestOfTheTreeSendsFits) {
  v1::ReportEvaluationRequest evaluation;
  evaluation.set_scores(std::string(kMaxScoreBytes / 5 * 4, 's'));
  evaluation.set_labels(std::string(kMaxScoreBytes / 5, 'l'));
  EXPECT_EQ(CheckLimits(evaluation), absl::OkStatus());
  for (int i = 0; i < kMostConfusionCounts; ++i) evaluation.mutable_confusion()->add_counts(i);
  for (int i = 0; i < kMostConfusionClasses; ++i) evaluation.mutable_confusion()->add_labels("a");
  EXPECT_EQ(CheckLimits(evaluation), absl::OkStatus());
  evaluation.mutable_confusion()->add_counts(1);
  EXPECT_THAT(std::string(CheckLimits(evaluation).message()),
              HasSubstr("confusion.counts has 10001 elements; the limit is 10000"));
  v1::AppendLogsRequest log;
  log.set_text(std::string(256 << 10, 't'));
  EXPECT_EQ(CheckLimits(log), absl::OkStatus());
  EXPECT_GT(MaxRequestBytes(*log.GetDescriptor()), log.ByteSizeLong());
}

// Fills the string, bytes or list field with more than its limit, or the first such field below it.
// False: there is none.
bool Overfill(Message& message, const FieldDescriptor& field, int depth) {
  // The largest of all carry tensors, which have their own limits.
  const std::string& name = field.name();
  if (name == "scores" || name == "labels" || name == "schema") return false;
  constexpr size_t kMore = 2 << 20;
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const std::string text(kMore, 'x');
    if (field.is_repeated()) {
      reflection.AddString(&message, &field, text);
    } else {
      reflection.SetString(&message, &field, text);
    }
    return true;
  }
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || depth == 0) return false;
  Message& inner = field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                       : *reflection.MutableMessage(&message, &field);
  for (int i = 0; i < inner.GetDescriptor()->field_count(); ++i) {
    if (Overfill(inner, *inner.GetDescriptor()->field(i), depth - 1)) return true;
  }
  return false;
}

TEST(RequestLimitsTest, EveryStringOfEveryRequestHasALimit) {
  int checked = 0;
  for (const Descriptor* file_message :
       {v1::ExamineRequest::descriptor(), v1::SubmitJobRequest::descriptor(),
        v1::RegisterDaemonRequest::descriptor(), v1::RendezvousRequest::descriptor()}) {
    const google::protobuf::FileDescriptor& file = *file_message->file();
    for (int s = 0; s < file.service_count(); ++s) {
      for (int m = 0; m < file.service(s)->method_count(); ++m) {
        const Descriptor& type = *file.service(s)->method(m)->input_type();
        EXPECT_LE(MaxRequestBytes(type), kMaxScoreBytes) << type.name();
        for (int f = 0; f < type.field_count(); ++f) {
          std::unique_ptr<Message> request(
              MessageFactory::generated_factory()->GetPrototype(&type)->New());
          if (!Overfill(*request, *type.field(f), 3)) continue;
          ++checked;
          EXPECT_EQ(CheckLimits(*request).code(), absl::StatusCode::kInvalidArgument)
              << type.name() << "." << type.field(f)->name();
        }
      }
    }
  }
  EXPECT_GT(checked, 30);
}

TEST(ShortenedTest, CutsBetweenCharacters) {
  EXPECT_EQ(Shortened("four", 4), "four");
  EXPECT_EQ(Shortened("longer", 5), "lo…");
  EXPECT_EQ(Shortened("aäää", 6), "aä…");
  EXPECT_EQ(Shortened("aaääb", 6), "aa…") << "not within a character";
}

TEST(ShortenedTest, StoredStringsAreCutToTheirLimits) {
  v1::JobSpec spec;
  spec.set_name(std::string(300, 'n'));
  spec.set_owner("me");
  ShortenStrings(spec);
  EXPECT_EQ(spec.name(), std::string(253, 'n') + "…");
  EXPECT_EQ(spec.owner(), "me");
}

}  // namespace
}  // namespace muster
