#ifndef MUSTER_COMMON_JOB_LABEL_KIND_H_
#define MUSTER_COMMON_JOB_LABEL_KIND_H_

namespace muster {

// What the label of an example says.
enum class LabelKind {
  // Which class the example is of, or which token follows.
  kClass,
  // A number to predict.
  kNumber,
};

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_LABEL_KIND_H_
