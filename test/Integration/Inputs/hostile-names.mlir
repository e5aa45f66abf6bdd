// Names that close a script, a string or an attribute, that are long, and that
// are not ASCII: a page displays them as text.
func.func @main(%x: tensor<4x8xf32> {mpc.role = #mpc.role<input>, mpc.name = "</script><script>document.title='owned'</script>"})
    -> (tensor<4x8xf32> {mpc.role = #mpc.role<output>, mpc.name = "\22><img src=x onerror=document.title='owned'>"}) {
  %w = mpc.constant dense<0.11> : tensor<8x8xf32> loc("weight")
  %0 = mpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("</script><script>document.title='owned'</script><!--")
  %1 = mpc.tanh %0 : tensor<4x8xf32> loc("'\22`$(touch owned)\\ & {{data}} \E2\80\A8 Gr\C3\B6\C3\9Fe \E5\B1\A4")
  %2 = mpc.matmul %1, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("__proto__")
  %3 = mpc.exp %2 : tensor<4x8xf32> loc("a/very/long/name/of/an/op/in/a/network/of/many/layers/that/nobody/would/want/to/read/in/one/line/but/that/exporters/write/all/the/same/encoder/layer.23/attention/output/dense/MatMul_with_bias_and_more")
  return %3 : tensor<4x8xf32>
}
