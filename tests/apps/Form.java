import java.awt.GridLayout;
import javax.swing.*;

/** A window of Swing that prints what it holds when its button is pressed. */
public class Form {
    public static void main(String[] words) {
        SwingUtilities.invokeLater(Form::show);
    }

    private static void show() {
        JFrame frame = new JFrame("Swing under test");
        JTextField name = new JTextField(20);
        JPasswordField word = new JPasswordField(20);
        JCheckBox agree = new JCheckBox("Agree");
        JComboBox<String> colour = new JComboBox<>(new String[] {"red", "green", "blue"});
        JButton print = new JButton("Print");
        name.getAccessibleContext().setAccessibleName("Name");
        word.getAccessibleContext().setAccessibleName("Password");
        colour.getAccessibleContext().setAccessibleName("Colour");
        print.addActionListener(event -> {
            System.out.printf(
                "%s|%d|%s|%s%n",
                name.getText(), word.getPassword().length, agree.isSelected(), colour.getSelectedItem());
            System.out.flush();
        });
        JMenuItem leave = new JMenuItem("Leave");
        leave.addActionListener(event -> System.exit(7));
        JMenu file = new JMenu("File");
        file.add(leave);
        JMenuBar bar = new JMenuBar();
        bar.add(file);
        frame.setJMenuBar(bar);
        frame.setLayout(new GridLayout(0, 1));
        for (JComponent part : new JComponent[] {name, word, agree, colour, print}) frame.add(part);
        frame.pack();
        frame.setLocation(200, 200);
        frame.setDefaultCloseOperation(JFrame.EXIT_ON_CLOSE);
        frame.setVisible(true);
    }
}
