#include "common/program/program_proof.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/transport/keyed_hash.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

void Append(absl::string_view text, std::string& all) {
  uint64_t size = text.size();
  for (int byte = 0; byte < 8; ++byte, size >>= 8) all.push_back(static_cast<char>(size & 0xff));
  absl::StrAppend(&all, text);
}

}  // namespace

std::string ProofOfSubmit(const v1::SubmitJobRequest& request, absl::string_view token) {
  const v1::ProgramSpec& program = request.spec().model().program();
  std::string text;
  Append("submit", text);
  Append(request.request_id(), text);
  Append(program.working_folder(), text);
  Append(absl::StrCat(program.command_size()), text);
  for (const std::string& argument : program.command()) Append(argument, text);
  const std::map<std::string, std::string> environment(program.environment().begin(),
                                                       program.environment().end());
  Append(absl::StrCat(environment.size()), text);
  for (const auto& [name, value] : environment) {
    Append(name, text);
    Append(value, text);
  }
  Append(request.spec().resume_from(), text);
  if (!program.shipped().empty()) Append(program.shipped(), text);
  return KeyedHash(token, text);
}

std::string ProofOfShipped(const v1::ShippedFolder& folder, absl::string_view token) {
  std::string text;
  Append("ship", text);
  Append(folder.name(), text);
  Append(absl::StrCat(folder.bytes()), text);
  return KeyedHash(token, text);
}

std::string ProofOfOrder(const v1::TaskOrder& order, absl::string_view token) {
  v1::TaskOrder proven = order;
  proven.clear_proof();
  proven.clear_device();
  std::string text;
  Append("order", text);
  {
    google::protobuf::io::StringOutputStream into(&text);
    google::protobuf::io::CodedOutputStream coded(&into);
    coded.SetSerializationDeterministic(true);
    proven.SerializePartialToCodedStream(&coded);
  }
  return KeyedHash(token, text);
}

}  // namespace muster
