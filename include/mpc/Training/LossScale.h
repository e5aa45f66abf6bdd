//===- LossScale.h - how a loss scale behaves -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The presets that imitate other systems' loss scalers, and their fields.
// Includes nothing of LLVM or MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TRAINING_LOSSSCALE_H
#define MPC_TRAINING_LOSSSCALE_H

#include <cstdint>
#include <optional>
#include <string>

namespace mpc {

/// How a loss scale is chosen, checked and taken out again. A plain value.
///
/// Where the rules of the presets come from: torch.amp.GradScaler; Keras 3's
/// and tf_keras' LossScaleOptimizer; TensorFlow 2.1's DynamicLossScale; apex'
/// LossScaler; DeepSpeed's DynamicLossScaler.
struct LossScalePreset {
  /// What the finite check looks at; without one no step is skipped.
  enum class Check { None, Scaled, Unscaled };
  /// How a gradient loses the scale: times the f32 of the float64 reciprocal,
  /// times the f32 reciprocal, or divided by the scale.
  enum class Unscale { Reciprocal64, Reciprocal32, Divide };
  /// What an overflow at the smallest scale means: the scale stays, or training
  /// is to end with an error. The host sees to the latter.
  enum class OnFloor { Hold, Error };
  /// Whether a skipped step counts as a step.
  enum class CountOnSkip { Hold, Advance };
  /// Where gradients are accumulated: one check of the window's sum, or one
  /// check of each micro step, of which a bad one is dropped and repeated.
  enum class Accumulation { Window, MicroStep };
  /// How gradients are clipped to a norm. `Torch`: by min(1, limit / (norm +
  /// 1e-6)), of the norm of the tensors' norms. `Keras`: by limit * min(1 /
  /// norm, 1 / limit), of the root of the tensors' sums of squares.
  enum class Clip { Torch, Keras };

  /// The canonical name: "torch", "keras3", "tf_keras", "tf2.1", "apex",
  /// "deepspeed", "static" or "none".
  std::string name = "none";
  /// The scale that training begins with.
  double init = 1;
  /// Factor after `interval` finite steps in a row, and after an overflow. Both
  /// 1: the scale never changes and is no state.
  double growth = 1, backoff = 1;
  int64_t interval = 2000;
  std::optional<double> min, max;
  /// Whether a scale that would not be finite stays as it was.
  bool keepFinite = false;
  /// Overflows that are borne before the scale backs off, that one included.
  int64_t hysteresis = 1;
  /// Whether each finite step, not growth alone, forgets borne overflows.
  bool refillHysteresis = false;
  Check check = Check::None;
  Unscale unscale = Unscale::Reciprocal64;
  OnFloor onFloor = OnFloor::Hold;
  CountOnSkip countOnSkip = CountOnSkip::Hold;
  Accumulation accumulation = Accumulation::Window;
  Clip clip = Clip::Torch;

  /// Whether the scale is state of the training.
  bool isDynamic() const { return growth != 1 || backoff != 1; }
  /// Whether gradients carry a scale at all.
  bool scales() const { return isDynamic() || init != 1; }
  /// Whether steps can be skipped.
  bool checks() const { return check != Check::None; }
  /// Whether a skipped step at this scale is to end the training.
  bool endsAt(float scale) const {
    return onFloor == OnFloor::Error && min && double(scale) <= *min;
  }

  /// Parses `PRESET[,field=value...]`: "torch" or "dynamic", which are the
  /// same, "keras3", "tf_keras", "tf2.1", "apex", "deepspeed", "static=N",
  /// "none". Fields: init, growth, backoff, interval, min, max (numbers, the
  /// last two also "none"), keep_finite, refill_hysteresis (0 or 1),
  /// hysteresis, check (none, scaled, unscaled), unscale (reciprocal64,
  /// reciprocal32, divide), on_floor (hold, error), count_on_skip (hold,
  /// advance), accumulation (window, micro_step), clip (torch, keras). Nothing,
  /// with a sentence in `error`, where the text is none.
  static std::optional<LossScalePreset> parse(const std::string &text,
                                              std::string &error);
};

} // namespace mpc

#endif // MPC_TRAINING_LOSSSCALE_H
